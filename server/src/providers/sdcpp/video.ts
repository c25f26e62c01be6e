import type { Http } from '../../infra/httpClient.ts'
import { TranscodingFailed, toMp4 } from '../../infra/transcode.ts'
import type { Clock } from '../../lib/time.ts'
import { ByteBlocks } from '../dialect/byteBlocks.ts'
import { faulty } from '../dialect/failure.ts'
import { askJob, fetchFile, JOB_MOST_BYTES, type JobRequest, jobIdFrom } from '../dialect/jobs.ts'
import { asObject, type JsonObject } from '../dialect/json.ts'
import type { ModelServer } from '../dialect/remote.ts'
import { ProviderFailure, type VideoCall, type VideoState, type VideoWork } from '../dialect/spec.ts'
import { wholeHeaders } from '../dialect/whole.ts'
import { failureOfStatus } from '../openai/failure.ts'
import { clipFormOf, latin1Of, MediaSearch, mediaOf } from './media.ts'
import { refuseSettings } from './request.ts'

/** The base URL is that of images, which ends in `/v1`; the API of jobs is beside it. */
export interface SdcppVideoOptions extends ModelServer {
  /** The path of ffmpeg; null where there is none. */
  readonly ffmpeg: string | null
}

/** Of what a look at a job reads: beyond it there is a clip. */
const LOOK_BYTES = 16 << 10
/** Of an mp4; a clip of a minute in the best quality has a tenth of it. */
const CLIP_MOST_BYTES = 2 ** 31
/** For turning a clip into mp4: a minute of it takes some seconds. */
const TRANSCODE_MOST_MS = 600_000

const GONE = [404, 410] as const
/** Of a cancel: the job is over, or the server can't stop what it has begun. */
const NOT_ENDED = [...GONE, 409] as const

/** Videos of stable-diffusion.cpp's server: one after the other; a job that has begun can't be stopped there. */
export function sdcppVideo(options: SdcppVideoOptions): VideoWork {
  const { baseUrl, apiKey, extraHeaders, ffmpeg, http, clock } = options
  const root = `${baseUrl.replace(/\/v1$/, '')}/sdcpp/v1`
  const headers = wholeHeaders(extraHeaders, apiKey)
  const at = (path: string, signal: AbortSignal, connectMs: number): JobRequest => {
    return { url: `${root}${path}`, headers, signal, connectMs, failureOfStatus }
  }
  return {
    // They come in another form, and are turned into mp4 as a whole.
    filesTakeMs: TRANSCODE_MOST_MS,
    async submit(call, signal, connectMs) {
      refuseSettings(call.prompt)
      const { document: said } = await askJob(http, clock, 'GET', at('/capabilities', signal, connectMs))
      const body = videoCallToWire(call, said ?? {})
      const { document } = await askJob(http, clock, 'POST', { ...at('/vid_gen', signal, connectMs), body })
      return jobIdFrom(document?.['id'])
    },
    async look(jobId, signal, connectMs) {
      const request = at(`/jobs/${encodeURIComponent(jobId)}`, signal, connectMs)
      return lookAt(http, clock, request)
    },
    async download(jobId, signal, connectMs) {
      const document = await fetchFile(http, clock, at(`/jobs/${encodeURIComponent(jobId)}`, signal, connectMs))
      return asMp4(mediaOf(document), ffmpeg, signal, clock)
    },
    async cancel(jobId, signal, connectMs) {
      const request = at(`/jobs/${encodeURIComponent(jobId)}/cancel`, signal, connectMs)
      await askJob(http, clock, 'POST', { ...request, body: '{}' }, NOT_ENDED)
    },
  }
}

/**
 * The body of `POST …/vid_gen`. The server is told frames, at the pace that it was started with; one more than the length has,
 * since its models make a multiple of four frames, and one. Throws where its model makes no videos.
 */
export function videoCallToWire({ prompt, seconds, size }: VideoCall, capabilities: JsonObject): string {
  const defaults = asObject(asObject(capabilities['defaults_by_mode'])?.['vid_gen'])
  const framesPerSecond = Number(defaults?.['fps'])
  if (!Number.isInteger(framesPerSecond) || framesPerSecond < 1 || framesPerSecond > 240) {
    throw new ProviderFailure('misconfigured', "the server's model makes no videos")
  }
  const formats = asObject(capabilities['output_formats_by_mode'])?.['vid_gen']
  return JSON.stringify({
    prompt,
    ...(size === null ? {} : { width: size.width, height: size.height }),
    // Left to itself the server makes every clip from one and the same seed.
    seed: -1,
    video_frames: seconds * framesPerSecond + 1,
    fps: framesPerSecond,
    output_format: Array.isArray(formats) && !formats.includes('webm') ? 'avi' : 'webm',
  })
}

/** A job that is done comes with its clip, and with its status behind that: its beginning is all that is read. */
async function lookAt(http: Http, clock: Clock, request: JobRequest): Promise<VideoState> {
  const pieces = await fetchFile(http, clock, { ...request, failureOfStatus: goneOr }).catch((error: unknown) => {
    if (error instanceof Gone) return null
    throw error
  })
  if (pieces === null) return { kind: 'unknown' }
  const search = new MediaSearch()
  const blocks = new ByteBlocks()
  let hasMedia = false
  for await (const piece of pieces) {
    blocks.add(piece)
    hasMedia ||= search.startIn(latin1Of(piece)) !== -1
    if (hasMedia && blocks.byteLength > LOOK_BYTES) return { kind: 'done' }
    if (blocks.byteLength > JOB_MOST_BYTES) throw faulty('the answer is no job')
  }
  return stateFromWire(Buffer.concat(blocks.take()).toString())
}

class Gone extends ProviderFailure {
  constructor() {
    super('misconfigured', 'there is no such job')
  }
}

function goneOr(status: number, body: string, retryAfterSeconds: number | null): ProviderFailure {
  return GONE.some((each) => each === status) ? new Gone() : failureOfStatus(status, body, retryAfterSeconds)
}

function stateFromWire(text: string): VideoState {
  let status: unknown
  try {
    status = asObject(JSON.parse(text))?.['status']
  } catch {
    throw faulty('the answer is no JSON')
  }
  if (status === 'queued') return { kind: 'waiting' }
  if (status === 'generating') return { kind: 'working', progress: null }
  if (status === 'completed') return { kind: 'done' }
  if (status === 'failed' || status === 'cancelled') {
    return { kind: 'failed', code: 'upstream_error', detail: `the job is ${status}` }
  }
  throw faulty("the job's status is not known")
}

async function* asMp4(
  clip: AsyncGenerator<Uint8Array, void, undefined>,
  ffmpeg: string | null,
  signal: AbortSignal,
  clock: Clock,
): AsyncGenerator<Uint8Array, void, undefined> {
  const first = await clip.next()
  const form = first.done === true ? null : clipFormOf(first.value)
  const whole = startingWith(first, clip)
  if (form === 'mp4') return yield* whole
  if (form === null || ffmpeg === null) {
    await clip.return()
    if (form === null) throw faulty('the clip is neither webm nor avi')
    throw new ProviderFailure('misconfigured', 'ffmpeg, which turns the clip into mp4, is not installed')
  }
  try {
    const bounds = { bytesMost: CLIP_MOST_BYTES, timeMostMs: TRANSCODE_MOST_MS }
    yield* toMp4(whole, { program: ffmpeg, form, signal, clock, ...bounds })
  } catch (error) {
    if (!(error instanceof TranscodingFailed)) throw error
    const kind = error.reason === 'time' ? 'timeout' : error.reason === 'size' ? 'too_large' : 'faulty'
    throw new ProviderFailure(kind, error.message)
  }
}

async function* startingWith(
  first: IteratorResult<Uint8Array, void>,
  rest: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  if (first.done !== true) yield first.value
  yield* rest
}
