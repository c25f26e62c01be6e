import { doubledMs } from '../lib/backoff.ts'
import { SECOND_MS } from '../lib/time.ts'
import { ProviderFailure, type VideoState } from '../providers/dialect/spec.ts'
import { asFailure } from '../routing/failure.ts'
import { askWithin, LOOK_MS, runningOf, workOf } from './asking.ts'
import { fetchAndComplete } from './fetch.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import type { Video, VideoError } from './job/video.ts'
import { beginStep } from './step.ts'
import { noteLooked } from './store.ts'
import { fail } from './transitions.ts'

/** Between two looks at a job: a tenth of the time that it has taken so far, within these. */
const LOOK_SOONEST_MS = SECOND_MS / 2
const LOOK_LATEST_MS = 10 * SECOND_MS

/** So often in a row a provider may not know a job, or send a file that breaks off or is no video. A restart of a proxy is no failure. */
const MISSES_MOST = 3
/** The wait after the first of these; twice as long after each further one, up to the longest. */
const MISSED_FIRST_MS = 5 * SECOND_MS
const MISSED_MOST_MS = 40 * SECOND_MS

/** When a job is to be looked at again. */
function nextLookMs({ clock }: Pick<VideoDependencies, 'clock'>, { startedAtMs, misses }: Video, missed: boolean) {
  const nowMs = clock.now()
  if (missed) return nowMs + doubledMs(MISSED_FIRST_MS, MISSED_MOST_MS, misses)
  const tenthMs = (nowMs - (startedAtMs ?? nowMs)) / 10
  return nowMs + Math.min(Math.max(tenthMs, LOOK_SOONEST_MS), LOOK_LATEST_MS)
}

/** Asks the provider how a job is that it has taken, and does what follows from that. */
export async function look(dependencies: VideoDependencies, video: Video, signal: AbortSignal): Promise<void> {
  const { log, reached } = dependencies
  let state: VideoState
  try {
    state = await askState(dependencies, video, signal)
  } catch (error) {
    if (signal.aborted) throw error
    const { kind, message: detail } = asFailure(error)
    log.warn(
      { video: video.id, provider: video.submission?.provider, kind, detail },
      'a video could not be asked after',
    )
    return again(dependencies, video, null, false)
  }
  await reached?.('looked')
  switch (state.kind) {
    case 'waiting':
      return again(dependencies, video, 0, false)
    case 'working':
      return again(dependencies, video, toPercent(state.progress), false)
    case 'done':
      return fetchIt(dependencies, video, signal)
    case 'failed':
      log.warn(
        { video: video.id, provider: video.submission?.provider, detail: state.detail },
        'a provider failed a video',
      )
      await fail(dependencies, video, state.code, false)
      return
    case 'unknown':
      if (video.misses + 1 < MISSES_MOST) return again(dependencies, video, null, true)
      log.warn({ video: video.id, provider: video.submission?.provider }, 'a provider does not know a video any more')
      await fail(dependencies, video, 'upstream_error', false)
      return
  }
}

async function askState(dependencies: VideoDependencies, video: Video, signal: AbortSignal): Promise<VideoState> {
  const work = workOf(dependencies, video.submission)
  const { providerJob } = video
  if (work === null || providerJob === null) {
    throw new ProviderFailure('misconfigured', 'the settings do not have this provider any more')
  }
  const { connectMs } = dependencies.catalog().deadlines
  const ended = beginStep(dependencies, video, 'poll')
  try {
    const state = await askWithin(dependencies, LOOK_MS, signal, (inner) => work.look(providerJob, inner, connectMs))
    ended('answered')
    return state
  } catch (error) {
    ended(signal.aborted ? 'cancelled' : asFailure(error).kind)
    throw error
  }
}

async function fetchIt(dependencies: VideoDependencies, video: Video, signal: AbortSignal): Promise<void> {
  const fetched = await fetchAndComplete(dependencies, video, signal)
  // A file that breaks off, or is some proxy's page, may be whole the next time; one that does so again and again
  // will not.
  if (fetched === 'broken' || fetched === 'invalid') {
    if (video.misses + 1 < MISSES_MOST) return again(dependencies, video, null, true)
    await fail(dependencies, video, fetched === 'invalid' ? 'invalid_output' : 'upstream_error', false)
  }
  if (fetched === 'not kept') return again(dependencies, video, null, false, 'internal_error')
}

/** It is not over: it is looked at again, unless it has had its time (V7). */
async function again(
  dependencies: VideoDependencies,
  video: Video,
  progress: number | null,
  missed: boolean,
  error: VideoError = 'upstream_timeout',
): Promise<void> {
  const { database, clock } = dependencies
  const { deadlineMs } = runningOf(dependencies, video.model)
  if (clock.now() >= (video.startedAtMs ?? 0) + deadlineMs) {
    await fail(dependencies, video, error, true)
    return
  }
  await noteLooked(database, video, { progress, missed, dueAtMs: nextLookMs(dependencies, video, missed) })
}

/** 100 is for what is complete. */
function toPercent(progress: number | null): number | null {
  return progress === null ? null : Math.min(Math.max(Math.floor(progress), 0), 99)
}
