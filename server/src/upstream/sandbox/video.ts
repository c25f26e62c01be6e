import type { Clock } from '../../kernel/time.ts'
import { type ImageSize, UpstreamFailure, type VideoCall, type VideoState, type VideoWork } from '../spec.ts'
import { type Directive, takeDirective, wrong } from './directive.ts'
import type { FilmWork } from './filmWork.ts'
import { FRAMES_PER_SECOND } from './frames.ts'
import { seedOf } from './seed.ts'
import type { SandboxSettings } from './settings.ts'

const SIZE: ImageSize = { width: 640, height: 360 }
/** Larger or longer ones would take the thread for clips too long. */
const SIDE_MOST = 1_280
const SECONDS_MOST = 60
const PROMPT_CHARACTERS = 200
/** Jobs that are remembered; the oldest is forgotten first, as servers that keep them in memory do. */
const JOBS_MOST = 10_000

const PARTS: ReadonlySet<string> = new Set<keyof Directive>([
  'first_token_ms',
  'fail',
  'clip',
  'clip_seconds',
  'job',
  'video_seconds_per_second',
])

interface Job {
  readonly call: VideoCall
  readonly size: ImageSize
  /** The prompt without its directive. */
  readonly text: string
  readonly directive: Directive
  readonly seconds: number
  /** On the clock's monotonic scale: when it is begun, and when it is done. */
  readonly begunMs: number
  readonly doneMs: number
}

/**
 * Simulated jobs, in memory: a restart forgets them. A job's time is the clock's; its clip is made when it is fetched, always
 * of the same pictures.
 */
export function sandboxVideo(settings: SandboxSettings, clock: Clock, films: FilmWork): VideoWork {
  const jobs = new Map<string, Job>()
  const find = (attemptId: string) => {
    const jobId = `video_${attemptId}`
    return jobs.has(jobId) ? jobId : null
  }
  return {
    async submit(call, signal) {
      signal.throwIfAborted()
      const job = jobOf(call, settings, clock.monotonicMs())
      const jobId = `video_${call.attemptId}`
      jobs.set(jobId, job)
      for (const oldest of jobs.keys()) {
        if (jobs.size <= JOBS_MOST) break
        jobs.delete(oldest)
      }
      return jobId
    },
    async find(attemptId, signal) {
      signal.throwIfAborted()
      return find(attemptId)
    },
    async look(jobId, signal) {
      signal.throwIfAborted()
      return stateOf(jobs.get(jobId), clock.monotonicMs())
    },
    async download(jobId, signal) {
      signal.throwIfAborted()
      const job = jobs.get(jobId)
      if (job === undefined || stateOf(job, clock.monotonicMs()).kind !== 'done') {
        throw new UpstreamFailure('faulty', 'there is no clip of this job')
      }
      return clipOf(job, films, signal)
    },
    async cancel(jobId) {
      jobs.delete(jobId)
    },
  }
}

function jobOf(call: VideoCall, settings: SandboxSettings, nowMs: number): Job {
  const { directive, rest } = takeDirective(call.prompt)
  const other = Object.keys(directive).find((name) => !PARTS.has(name))
  if (other !== undefined) throw wrong(`${other} is not for videos`)
  const kind = directive.fail ?? settings.failure?.kind ?? null
  if (kind !== null) {
    throw new UpstreamFailure(kind, 'simulated', { mayFailOver: kind === 'unavailable' || kind === 'timeout' })
  }
  const size = call.size ?? SIZE
  const sides = [size.width, size.height]
  if (sides.some((side) => side > SIDE_MOST || side < 2 || side % 2 !== 0)) {
    throw rejected(`The sandbox makes videos of even sides of at most ${SIDE_MOST} pixels.`)
  }
  const seconds = directive.clip_seconds ?? call.seconds
  if (seconds > SECONDS_MOST) throw rejected(`The sandbox makes videos of at most ${SECONDS_MOST} seconds.`)
  const pace = directive.video_seconds_per_second ?? settings.videoSecondsPerSecond
  const begunMs = nowMs + (directive.first_token_ms ?? settings.firstTokenMs)
  const takesMs = pace === null || pace === 0 ? 0 : (seconds * 1_000) / pace
  return { call, size, text: rest, directive, seconds, begunMs, doneMs: begunMs + takesMs }
}

function rejected(message: string): UpstreamFailure {
  return new UpstreamFailure('rejected', 'more than the sandbox makes', { publicMessage: message })
}

function stateOf(job: Job | undefined, nowMs: number): VideoState {
  if (job === undefined) return { kind: 'unknown' }
  const { begunMs, doneMs, directive } = job
  if (nowMs < begunMs) return { kind: 'waiting' }
  if (directive.job === 'lost') return { kind: 'unknown' }
  if (directive.job === 'stuck' || nowMs < doneMs) {
    const progress = doneMs === begunMs ? 0 : Math.floor(((nowMs - begunMs) * 100) / (doneMs - begunMs))
    return { kind: 'working', progress: Math.min(progress, 99) }
  }
  if (directive.job === 'failed') return { kind: 'failed', code: 'upstream_error', detail: 'simulated' }
  if (directive.job === 'content_policy') return { kind: 'failed', code: 'content_policy', detail: 'simulated' }
  return { kind: 'done' }
}

const HTML = Buffer.from('<!doctype html><title>502 Bad Gateway</title>')

async function* clipOf(job: Job, films: FilmWork, signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
  const { clip } = job.directive
  if (clip === 'empty') return
  if (clip === 'html') yield HTML
  else {
    const bytes = await made(job, films)
    signal.throwIfAborted()
    yield clip === 'truncated' ? bytes.subarray(0, bytes.byteLength >>> 1) : bytes
  }
}

async function made({ call, size, text, seconds }: Job, films: FilmWork): Promise<Uint8Array> {
  const seed = seedOf(call.model, call.prompt)
  const lines = [
    `size: ${size.width}x${size.height}`,
    `seed: ${seed}`,
    `prompt: ${text.slice(0, PROMPT_CHARACTERS).replaceAll(/\s+/g, ' ')}`,
  ]
  const frames = Math.max(Math.round(seconds * FRAMES_PER_SECOND), 1)
  try {
    return await films.make({ lines, size, frames, seed })
  } catch {
    throw new UpstreamFailure('unavailable', 'the thread for clips failed')
  }
}
