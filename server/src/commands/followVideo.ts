import { MINUTE_MS, SECOND_MS } from '../kernel/time.ts'
import { Watchdog } from '../kernel/watchdog.ts'
import { callApi, openApi, ServerRefusal, ServerUnreached } from './api.ts'
import { CommandFailure, type CommandResult, InterruptedFailure, type Invocation, UsageFailure } from './command.ts'
import type { Surroundings } from './surroundings.ts'
import { type Video, videoPath } from './video.ts'
import { createVideoTeller, type VideoTeller } from './videoTeller.ts'

/** Between two looks at a job, and between two tries while the server is away. */
const LOOK_MS = SECOND_MS

/** A server that is restarted is back well within it; a script must not wait for ever. */
const PATIENCE_MS = 5 * MINUTE_MS

/** A download of which nothing comes for so long is begun again. */
const SILENCE_MS = 30 * SECOND_MS

/** One command that waits for one job. */
interface Errand {
  readonly invocation: Invocation
  readonly surroundings: Surroundings
  readonly teller: VideoTeller
  /** Aborted by Ctrl-C. */
  readonly left: AbortSignal
  /** What to type to wait for it again. */
  readonly comeBack: string
}

/**
 * Waits until a job is over, however often the server goes away meanwhile, and saves its clip where `--output` says.
 * Throws {@link CommandFailure} when no clip came of it, {@link InterruptedFailure} on Ctrl-C.
 */
export async function followVideo(
  invocation: Invocation,
  surroundings: Surroundings,
  made: Video,
): Promise<CommandResult> {
  const leaving = new AbortController()
  const forget = surroundings.onInterrupt(() => leaving.abort())
  const teller = createVideoTeller(invocation, surroundings, made)
  const comeBack = commandFor(invocation, 'wait', made, invocation.text('output'))
  const errand = { invocation, surroundings, teller, left: leaving.signal, comeBack }
  try {
    const video = await untilOver(errand, made)
    if (video.status !== 'completed') throw new CommandFailure(endOf(video))
    const output = invocation.text('output')
    if (output !== undefined) await patiently(errand, () => download(errand, video, output))
    const save = commandFor(invocation, 'wait', made, 'clip.mp4')
    const clip = output === undefined ? `For 24 hours ${save} saves it.` : `It is in ${output}.`
    return {
      json: { ...video, ...(output !== undefined && { output }) },
      text: `Video ${video.id}: ${video.seconds} s, ${video.cost_cents} cents. ${clip}\n`,
    }
  } catch (error) {
    if (!leaving.signal.aborted) throw error
    const cancel = commandFor(invocation, 'cancel', made, undefined)
    throw new InterruptedFailure(`left video ${made.id}, which goes on: ${comeBack} waits for it, ${cancel} ends it`)
  } finally {
    teller.end()
    forget()
  }
}

/** Refuses an `--output` that can't be written, before anything is paid for. */
export async function checkOutput(invocation: Invocation, { checkFile }: Surroundings): Promise<void> {
  const output = invocation.text('output')
  if (output === undefined) return
  await checkFile(output).catch((error: unknown) => {
    throw new UsageFailure(`--output: ${output} can't be written: ${reasonOf(error)}`)
  })
}

async function untilOver(errand: Errand, made: Video): Promise<Video> {
  const { invocation, surroundings, teller, left } = errand
  let video = made
  while (video.status === 'queued' || video.status === 'in_progress') {
    teller.tell(video)
    await pause(errand)
    const call = { method: 'GET', path: videoPath(made.id) } as const
    video = (await patiently(errand, () => callApi(invocation, surroundings, call, left))) as Video
  }
  return video
}

/** Does something with the server, again and again while it is away. */
async function patiently<T>(errand: Errand, work: () => Promise<T>): Promise<T> {
  const { clock } = errand.surroundings
  const untilMs = clock.monotonicMs() + PATIENCE_MS
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (errand.left.aborted || !isPassing(error)) throw error
      const minutes = PATIENCE_MS / MINUTE_MS
      if (clock.monotonicMs() >= untilMs)
        throw new CommandFailure(`${error.message}; tried for ${minutes} minutes: ${errand.comeBack} tries again`)
      errand.teller.away()
      await pause(errand)
    }
  }
}

function isPassing(error: unknown): error is CommandFailure {
  if (error instanceof ServerRefusal) return error.status >= 500 || error.status === 429
  return error instanceof ServerUnreached
}

/** Throws when it was left meanwhile. */
async function pause({ surroundings, left }: Errand): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = () => {
      cancel()
      left.removeEventListener('abort', end)
      resolve()
    }
    const cancel = surroundings.clock.after(LOOK_MS, end)
    left.addEventListener('abort', end)
  })
  left.throwIfAborted()
}

async function download(errand: Errand, { id }: Video, output: string): Promise<void> {
  const { invocation, surroundings, left, comeBack } = errand
  const over = new AbortController()
  const watchdog = new Watchdog(surroundings.clock, () => over.abort())
  const onBytes = () => watchdog.due(surroundings.clock.monotonicMs() + SILENCE_MS)
  onBytes()
  try {
    const call = { method: 'GET', path: `${videoPath(id)}/content` } as const
    const response = await openApi(invocation, surroundings, call, AbortSignal.any([left, over.signal]))
    const { url } = surroundings.server(invocation.text('server'))
    await surroundings.saveFile(output, whole(response, url, onBytes))
  } catch (error) {
    if (left.aborted || error instanceof CommandFailure) throw error
    throw new CommandFailure(`${output} can't be written: ${reasonOf(error)}; mend that, and ${comeBack} saves it`)
  } finally {
    watchdog.stop()
  }
}

/** The body, all of it: one that breaks off is thrown for, however it does. */
async function* whole(response: Response, url: string, onBytes: () => void): AsyncGenerator<Uint8Array, void> {
  const announcedBytes = Number(response.headers.get('Content-Length') ?? Number.NaN)
  let bytes = 0
  const reader = response.body?.getReader()
  try {
    for (;;) {
      const read = await reader?.read().catch(() => null)
      if (read === null) throw new ServerUnreached(url)
      if (read === undefined || read.done) break
      onBytes()
      bytes += read.value.byteLength
      yield read.value
    }
    if (bytes < announcedBytes) throw new ServerUnreached(url)
  } finally {
    await reader?.cancel().catch(() => {})
  }
}

function reasonOf(error: unknown): string {
  switch (error instanceof Error && 'code' in error ? error.code : '') {
    case 'ENOSPC':
    case 'EDQUOT':
      return 'the disk is full'
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return 'this user may not write there'
    case 'ENOENT':
    case 'ENOTDIR':
      return 'there is no such folder'
    case 'EISDIR':
      return 'there is something else of this name'
    default:
      return error instanceof Error ? error.message : String(error)
  }
}

/** What to type next, on the same server. */
function commandFor(
  invocation: Invocation,
  verb: 'wait' | 'cancel',
  { id }: Video,
  output: string | undefined,
): string {
  const option = (name: string, value: string | undefined) =>
    value === undefined ? '' : ` --${name} ${/^[\w./:@+-]+$/.test(value) ? value : `'${value}'`}`
  return `"tollgate video ${verb} ${id}${option('output', output)}${option('server', invocation.text('server'))}"`
}

function endOf({ id, status, error, cost_cents: cents }: Video): string {
  if (status === 'failed') return `video ${id} has failed (${error}); nothing was charged: create it again`
  if (cents !== null) return `video ${id} is ${status}: clips are kept for 24 hours`
  return `video ${id} is ${status}; nothing was charged`
}
