import { MINUTE_MS } from '../lib/time.ts'
import { ProviderFailure } from '../providers/dialect/spec.ts'
import { askUntil } from '../routing/askUntil.ts'
import { asFailure } from '../routing/failure.ts'
import { askWithin, LOOK_MS, runningOf, workOf } from './asking.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import { artifactName, type Video } from './job/video.ts'
import { beginStep } from './step.ts'
import { complete } from './transitions.ts'

/** The largest file that is taken on. Minutes of video at a high rate; more is a provider that does not end. */
const BYTES_MOST = 4 * 1024 ** 3

/** A file may take as long to come as the job may to be made, and this long in any case: one that drips comes to no end. */
const FETCH_LEAST_MS = 10 * MINUTE_MS

/** Measuring a file takes some ten reads of the store. A file may be made to take thousands. */
const MEASURE_MOST_MS = 5 * MINUTE_MS

/**
 * The outcome of fetching a finished job's file:
 * - `over`: it is complete, or was over before
 * - `invalid`: it is no video
 * - `broken`: it did not come whole
 * - `not kept`: it could not be kept here at the moment
 */
export type Fetched = 'over' | 'invalid' | 'broken' | 'not kept'

/** Fetches the file of a job that is done, and completes the job. A file that is not published is removed again. */
export async function fetchAndComplete(
  dependencies: VideoDependencies,
  video: Video,
  signal: AbortSignal,
): Promise<Fetched> {
  const { artifacts, log, reached } = dependencies
  const name = artifactName(video)
  const staged = await stage(dependencies, video, name, signal)
  if (typeof staged === 'string') return staged
  await reached?.('staged')
  let outcome: Fetched = 'over'
  let published = false
  const measuredSeconds = await measure(dependencies, name, staged.bytes, signal)
  await reached?.('measured')
  if (typeof measuredSeconds === 'number') {
    // Where the commit's outcome is not known this rejects, and the file stays: the sweep finds out whose it is.
    published = (await complete(dependencies, video, { bytes: staged.bytes, measuredSeconds })) !== null
  } else outcome = measuredSeconds
  if (!published) {
    await artifacts.remove(name).catch((error: unknown) => {
      log.warn({ err: error, name }, 'a file that nobody needs could not be removed; it is swept later')
    })
  }
  return outcome
}

async function stage(
  dependencies: VideoDependencies,
  video: Video,
  name: string,
  signal: AbortSignal,
): Promise<{ readonly bytes: number } | Exclude<Fetched, 'over'>> {
  const { artifacts, log, catalog, clock } = dependencies
  const work = workOf(dependencies, video.submission)
  const { providerJob } = video
  if (work === null || providerJob === null) return 'not kept'
  const { connectMs } = catalog().deadlines
  const watch: Watch = { failure: null, isTooLarge: false }
  const ended = beginStep(dependencies, video, 'fetch')
  const ending = new AbortController()
  const stop = () => ending.abort(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  const limitMs = Math.max(runningOf(dependencies, video.model).deadlineMs, FETCH_LEAST_MS)
  const cancelTimer = clock.after(limitMs, () =>
    ending.abort(new ProviderFailure('timeout', `the file has not come within ${limitMs} ms`)),
  )
  try {
    const download = () => work.download(providerJob, ending.signal, connectMs)
    const pieces = await askWithin(dependencies, LOOK_MS, ending.signal, download)
    const watching = watched(dependencies, pieces, watch, work.filesTakeMs ?? 0, ending.signal)
    const staged = await artifacts.write(name, watching, BYTES_MOST)
    ended('answered')
    return staged
  } catch (error) {
    const failure = watch.failure ?? (error instanceof ProviderFailure ? error : null)
    if (signal.aborted) {
      ended('cancelled')
      throw error
    }
    if (watch.isTooLarge) {
      ended('too_large')
      return 'invalid'
    }
    // The provider is not at fault when the file could not be kept here.
    ended(failure?.kind ?? 'answered')
    log.warn({ video: video.id, err: failure === null ? error : failure.message }, 'a video could not be fetched')
    return failure === null ? 'not kept' : 'broken'
  } finally {
    cancelTimer()
    signal.removeEventListener('abort', stop)
    // Where the store of the files has had enough, the provider has to stop too.
    ending.abort()
  }
}

interface Watch {
  /** Of the provider, while the file came. */
  failure: ProviderFailure | null
  isTooLarge: boolean
}

/**
 * Passes pieces on under the deadline of silence, which for the first is longer by the time that making the file takes, and
 * tells what the provider does wrong from what the store does.
 */
async function* watched(
  dependencies: VideoDependencies,
  pieces: AsyncIterable<Uint8Array>,
  watch: Watch,
  makingMs: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void> {
  const { silenceMs } = dependencies.catalog().deadlines
  const iterator = pieces[Symbol.asyncIterator]()
  let bytes = 0
  try {
    for (;;) {
      const limitMs = bytes === 0 ? silenceMs + makingMs : silenceMs
      const next = await askWithin(dependencies, limitMs, signal, () => iterator.next()).catch((error: unknown) => {
        watch.failure = asFailure(error)
        throw error
      })
      if (next.done === true) return
      bytes += next.value.byteLength
      watch.isTooLarge = bytes > BYTES_MOST
      yield next.value
    }
  } finally {
    // Not waited for: a provider that is silent may be so here too.
    iterator.return?.().catch(() => {})
  }
}

/** Nobody knows whether the file or the store of files is at fault. */
class MeasuredTooLong extends Error {
  constructor() {
    super(`the file was not measured within ${MEASURE_MOST_MS} ms`)
  }
}

/** A file that is there as it was written and can't be measured is no video. Throws the signal's reason after an abort. */
async function measure(
  { artifacts, measureSeconds, clock, log }: VideoDependencies,
  name: string,
  bytes: number,
  signal: AbortSignal,
): Promise<number | 'invalid' | 'not kept'> {
  const bounds = { clock, signal, limitMs: MEASURE_MOST_MS, late: () => new MeasuredTooLong() }
  try {
    const seconds = await askUntil(bounds, (inner) => measureSeconds(artifacts, name, bytes, inner))
    return Number.isFinite(seconds) && seconds > 0 ? seconds : 'invalid'
  } catch (error) {
    if (signal.aborted) throw signal.reason
    if (error instanceof MeasuredTooLong) {
      log.warn({ err: error, name }, 'a video could not be measured in time; it is fetched again')
      return 'not kept'
    }
    const isThere = await artifacts.size(name).then(
      (size) => size === bytes,
      () => false,
    )
    log.warn({ err: error, name }, 'a video could not be measured')
    return isThere ? 'invalid' : 'not kept'
  }
}
