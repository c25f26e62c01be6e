import { MINUTE_MS, SECOND_MS } from '../../../server/src/lib/time.ts'
import { Watchdog } from '../../../server/src/lib/watchdog.ts'
import { dollars } from '../account/balance.ts'
import { AnswerBrokeOff, askedServer, callApi, isTransient, openStream } from '../api.ts'
import type { CliResult, CommandLine } from '../command.ts'
import { CliFailure, Interruption } from '../failure.ts'
import { pauseUnlessLeft } from '../pause.ts'
import { checkPlace, placeProblem } from '../saveFile.ts'
import { commandToType } from '../shellWords.ts'
import type { System } from '../system.ts'
import { createVideoTeller, type VideoTeller } from './teller.ts'
import { type ShownVideo, videoPath } from './video.ts'

/** Between two looks at a job, and between two tries while the server is away. */
const LOOK_MS = SECOND_MS

/** A server that is restarted is back well within it; a script must not wait for ever. */
const PATIENCE_MS = 5 * MINUTE_MS

/** A download of which nothing comes for so long is begun again. */
const SILENCE_MS = 30 * SECOND_MS

/** One command that waits for one job. */
interface Errand {
  readonly args: CommandLine
  readonly system: System
  readonly teller: VideoTeller
  /** Aborted by Ctrl-C. */
  readonly left: AbortSignal
  /** The command that waits for it again. */
  readonly comeBack: string
}

/**
 * Waits until a job is over, however often the server goes away meanwhile, and saves its clip where `--output` says.
 * Throws {@link CliFailure} when no clip came of it, {@link Interruption} on Ctrl-C.
 */
export async function followVideo(args: CommandLine, system: System, made: ShownVideo): Promise<CliResult> {
  const leaving = new AbortController()
  const forget = system.onInterrupt(() => leaving.abort())
  const teller = createVideoTeller(args, system, made)
  const comeBack = commandFor(args, 'wait', made, args.text('output'))
  const errand = { args, system, teller, left: leaving.signal, comeBack }
  try {
    const video = await untilOver(errand, made)
    if (video.status !== 'completed') throw new CliFailure(endOf(video))
    const output = args.text('output')
    if (output !== undefined) await patiently(errand, () => download(errand, video, output))
    const save = commandFor(args, 'wait', made, 'clip.mp4')
    const clip = output === undefined ? `For 24 hours ${save} saves it.` : `It is in ${output}.`
    return {
      json: { ...video, ...(output !== undefined && { output }) },
      text: `Video ${video.id}: ${video.seconds} s for ${dollars(video.cost_cents ?? 0)}. ${clip}\n`,
    }
  } catch (error) {
    if (!leaving.signal.aborted) throw error
    const cancel = commandFor(args, 'cancel', made, undefined)
    throw new Interruption(`left video ${made.id}, which goes on: ${comeBack} waits for it, ${cancel} ends it`)
  } finally {
    teller.end()
    forget()
  }
}

/** Refuses an `--output` that can't be written, before anything is paid for. */
export async function checkOutput(args: CommandLine, system: System): Promise<void> {
  const output = args.text('output')
  if (output !== undefined) await checkPlace(system, [output])
}

async function untilOver(errand: Errand, made: ShownVideo): Promise<ShownVideo> {
  const { args, system, teller, left } = errand
  let video = made
  while (video.status === 'queued' || video.status === 'in_progress') {
    teller.tell(video)
    await pause(errand)
    const call = { method: 'GET', path: videoPath(made.id) } as const
    video = (await patiently(errand, () => callApi(args, system, call, left))) as ShownVideo
  }
  return video
}

/** Does something with the server, again and again while it is away. */
async function patiently<T>(errand: Errand, work: () => Promise<T>): Promise<T> {
  const { clock } = errand.system
  const untilMs = clock.monotonicMs() + PATIENCE_MS
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (errand.left.aborted || !isTransient(error)) throw error
      const minutes = PATIENCE_MS / MINUTE_MS
      if (clock.monotonicMs() >= untilMs)
        throw new CliFailure(`${error.message}; tried for ${minutes} minutes: ${errand.comeBack} tries again`)
      errand.teller.away()
      await pause(errand)
    }
  }
}

function pause({ system, left }: Errand): Promise<void> {
  return pauseUnlessLeft(system.clock, LOOK_MS, left)
}

async function download(errand: Errand, { id }: ShownVideo, output: string): Promise<void> {
  const { args, system, left, comeBack } = errand
  const over = new AbortController()
  const watchdog = new Watchdog(system.clock, () => over.abort())
  const onBytes = () => watchdog.due(system.clock.monotonicMs() + SILENCE_MS)
  onBytes()
  try {
    const call = { method: 'GET', path: `${videoPath(id)}/content` } as const
    const response = await openStream(args, system, call, AbortSignal.any([left, over.signal]))
    const url = await askedServer(args, system)
    await system.saveFile(output, whole(response, url, onBytes))
  } catch (error) {
    if (left.aborted || error instanceof CliFailure) throw error
    throw new CliFailure(`${output} can't be written: ${placeProblem(error)}; fix that, then ${comeBack} saves it`)
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
      if (read === null) throw new AnswerBrokeOff(url)
      if (read === undefined || read.done) break
      onBytes()
      bytes += read.value.byteLength
      yield read.value
    }
    if (bytes < announcedBytes) throw new AnswerBrokeOff(url)
  } finally {
    await reader?.cancel().catch(() => {})
  }
}

/** Returns the words to type next, on the same server. */
function commandFor(
  args: CommandLine,
  verb: 'wait' | 'cancel',
  { id }: ShownVideo,
  output: string | undefined,
): string {
  const option = (name: string, value: string | undefined) => (value === undefined ? [] : [`--${name}`, value])
  return commandToType(['video', verb, id, ...option('output', output), ...option('server', args.text('server'))])
}

function endOf({ id, status, error, cost_cents: cents }: ShownVideo): string {
  if (status === 'failed') return `video ${id} has failed (${error}); nothing was charged: create it again`
  if (cents !== null) return `video ${id} is ${status}: clips are kept for 24 hours`
  return `video ${id} is ${status}; nothing was charged`
}
