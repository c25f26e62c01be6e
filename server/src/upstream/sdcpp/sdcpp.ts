import type { Http } from '../../io/http.ts'
import type { Clock } from '../../kernel/time.ts'
import { drawnFromWire, IMAGES_MOST_BYTES } from '../openai/draw.ts'
import { failureOfStatus } from '../openai/failure.ts'
import { type Upstream, UpstreamFailure } from '../spec.ts'
import type { VectorWork } from '../vectors/work.ts'
import { postForWhole, wholeHeaders } from '../whole.ts'
import { drawToSdcpp } from './request.ts'
import { sdcppVideo } from './video.ts'

export interface SdcppUpstreamOptions {
  /** Its name in the settings file. */
  readonly name: string
  /** Where `/images/generations` is appended, such as `http://127.0.0.1:1234/v1`. */
  readonly baseUrl: string
  /** For a proxy in front of it; null: nothing is sent. */
  readonly apiKey: string | null
  readonly extraHeaders: Readonly<Record<string, string>>
  /** The path of ffmpeg; null where there is none. */
  readonly ffmpeg: string | null
  readonly http: Http
  readonly clock: Clock
  readonly vectors: VectorWork
}

/** stable-diffusion.cpp's server: one model, one image or video at a time. */
export function sdcppUpstream(options: SdcppUpstreamOptions): Upstream {
  const { name, baseUrl, apiKey, extraHeaders, http, clock, vectors } = options
  const headers = wholeHeaders(extraHeaders, apiKey)
  return {
    name,
    // The settings give it no chat models.
    chat: () => Promise.reject(new UpstreamFailure('misconfigured', 'this server makes images and videos only')),
    async draw(call, signal, connectMs, room) {
      const pieces = await postForWhole(http, clock, {
        url: `${baseUrl}/images/generations`,
        headers,
        body: drawToSdcpp(call),
        signal,
        connectMs,
        room,
        maxBytes: IMAGES_MOST_BYTES,
        isRepeatable: false,
        failureOfStatus,
      })
      return drawnFromWire(pieces, vectors)
    },
    video: sdcppVideo(options),
  }
}
