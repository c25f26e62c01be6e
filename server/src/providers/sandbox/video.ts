import type { Clock } from '../../lib/time.ts'
import { type ImageSize, ProviderFailure, type VideoCall, type VideoState, type VideoWork } from '../dialect/spec.ts'
import type { ClipWork } from './clipWork.ts'
import { type Directive, takeDirective, wrong } from './directive.ts'
import { FRAMES_PER_SECOND } from './frames.ts'
import { seedOf } from './seed.ts'
import type { SandboxSettings } from './settings.ts'

const SIZE: ImageSize = { width: 640, height: 360 }
/** Larger or longer ones would take the thread for clips too long. */
const SIDE_MOST = 1_280
const SECONDS_MOST = 60
const PROMPT_CHARACTERS = 200
/** Attempts whose job is found again by them; the oldest is forgotten first. */
const ATTEMPTS_MOST = 10_000
/** Clips are drawn when they are fetched, one after the other: so long may one wait for the others. */
const FILES_TAKE_MS = 600_000

const PARTS: ReadonlySet<string> = new Set<keyof Directive>([
  'first_token_ms',
  'fail',
  'clip',
  'clip_seconds',
  'job',
  'video_seconds_per_second',
])

/** All of a job. It is its id, so that every process, and one that was started again, knows it. */
interface Job {
  readonly size: ImageSize
  /** Of the prompt without its directive. */
  readonly text: string
  readonly seed: number
  readonly seconds: number
  readonly job?: Directive['job'] | undefined
  readonly clip?: Directive['clip'] | undefined
  /** Milliseconds since the epoch: when it is begun, and when it is done. */
  readonly begunMs: number
  readonly doneMs: number
}

/** Simulated jobs. A job's time is the clock's; its clip is made when it is fetched, always of the same pictures. */
export function sandboxVideo(settings: SandboxSettings, clock: Clock, clips: ClipWork): VideoWork {
  /** Ids of jobs by their attempt; null: cancelled. */
  const attempts = new Map<string, string | null>()
  const note = (attemptId: string, jobId: string | null) => {
    attempts.delete(attemptId)
    attempts.set(attemptId, jobId)
    for (const oldest of attempts.keys()) {
      if (attempts.size <= ATTEMPTS_MOST) break
      attempts.delete(oldest)
    }
  }
  const read = (jobId: string): Job | null => (attempts.get(attemptOf(jobId)) === null ? null : fromId(jobId))
  return {
    filesTakeMs: FILES_TAKE_MS,
    async submit(call, signal) {
      signal.throwIfAborted()
      const jobId = toId(call.attemptId, jobOf(call, settings, clock.now()))
      note(call.attemptId, jobId)
      return jobId
    },
    async find(attemptId, signal) {
      signal.throwIfAborted()
      return attempts.get(attemptId) ?? null
    },
    async look(jobId, signal) {
      signal.throwIfAborted()
      return stateOf(read(jobId), clock.now())
    },
    async download(jobId, signal) {
      signal.throwIfAborted()
      const job = read(jobId)
      if (job === null || stateOf(job, clock.now()).kind !== 'done') {
        throw new ProviderFailure('faulty', 'there is no clip of this job')
      }
      return clipOf(job, clips, signal)
    },
    async cancel(jobId) {
      note(attemptOf(jobId), null)
    },
  }
}

const ID = /^video_([^.]*)\.([A-Za-z0-9_-]+)$/

function toId(attemptId: string, job: Job): string {
  return `video_${attemptId}.${Buffer.from(JSON.stringify(job)).toString('base64url')}`
}

function attemptOf(jobId: string): string {
  return ID.exec(jobId)?.[1] ?? jobId
}

/** Null: no sandbox gave it. */
function fromId(jobId: string): Job | null {
  const written = ID.exec(jobId)?.[2]
  return written === undefined ? null : JSON.parse(Buffer.from(written, 'base64url').toString())
}

function jobOf(call: VideoCall, settings: SandboxSettings, nowMs: number): Job {
  const { directive, rest } = takeDirective(call.prompt)
  const other = Object.keys(directive).find((name) => !PARTS.has(name))
  if (other !== undefined) throw wrong(`${other} is not for videos`)
  const kind = directive.fail ?? settings.failure?.kind ?? null
  if (kind !== null) {
    throw new ProviderFailure(kind, 'simulated', { mayFailOver: kind === 'unavailable' || kind === 'timeout' })
  }
  const size = call.size ?? SIZE
  const sides = [size.width, size.height]
  if (sides.some((side) => side > SIDE_MOST || side < 2 || side % 2 !== 0)) {
    throw rejected(`Width and height of a video must be even, from 2 to ${SIDE_MOST} pixels.`)
  }
  const seconds = directive.clip_seconds ?? call.seconds
  if (seconds > SECONDS_MOST) throw rejected(`The sandbox makes videos of at most ${SECONDS_MOST} seconds.`)
  const pace = directive.video_seconds_per_second ?? settings.videoSecondsPerSecond
  const begunMs = nowMs + (directive.first_token_ms ?? settings.firstTokenMs)
  const takesMs = pace === null || pace === 0 ? 0 : (seconds * 1_000) / pace
  return {
    size,
    text: rest.slice(0, PROMPT_CHARACTERS).replaceAll(/\s+/g, ' '),
    seed: seedOf(call.model, call.prompt),
    seconds,
    job: directive.job,
    clip: directive.clip,
    begunMs,
    doneMs: begunMs + takesMs,
  }
}

function rejected(message: string): ProviderFailure {
  return new ProviderFailure('rejected', 'more than the sandbox makes', { publicMessage: message })
}

function stateOf(job: Job | null, nowMs: number): VideoState {
  if (job === null) return { kind: 'unknown' }
  const { begunMs, doneMs } = job
  if (nowMs < begunMs) return { kind: 'waiting' }
  if (job.job === 'lost') return { kind: 'unknown' }
  if (job.job === 'stuck' || nowMs < doneMs) {
    const progress = doneMs === begunMs ? 0 : Math.floor(((nowMs - begunMs) * 100) / (doneMs - begunMs))
    return { kind: 'working', progress: Math.min(progress, 99) }
  }
  if (job.job === 'failed') return { kind: 'failed', code: 'upstream_error', detail: 'simulated' }
  if (job.job === 'content_policy') return { kind: 'failed', code: 'content_policy', detail: 'simulated' }
  return { kind: 'done' }
}

const HTML = Buffer.from('<!doctype html><title>502 Bad Gateway</title>')

async function* clipOf(job: Job, clips: ClipWork, signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
  const { clip } = job
  if (clip === 'empty') return
  if (clip === 'html') yield HTML
  else {
    const bytes = await made(job, clips)
    signal.throwIfAborted()
    yield clip === 'truncated' ? bytes.subarray(0, bytes.byteLength >>> 1) : bytes
  }
}

async function made({ size, text, seed, seconds }: Job, clips: ClipWork): Promise<Uint8Array> {
  const lines = [`size: ${size.width}x${size.height}`, `seed: ${seed}`, `prompt: ${text}`]
  const frames = Math.max(Math.round(seconds * FRAMES_PER_SECOND), 1)
  try {
    return await clips.make({ lines, size, frames, seed })
  } catch {
    throw new ProviderFailure('unavailable', 'the thread for clips failed')
  }
}
