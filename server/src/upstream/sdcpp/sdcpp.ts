import { drawnFromWire, IMAGES_MOST_BYTES } from '../openai/draw.ts'
import { failureOfStatus } from '../openai/failure.ts'
import type { NamedServer } from '../remote.ts'
import { type Upstream, UpstreamFailure } from '../spec.ts'
import type { VectorWork } from '../vectors/work.ts'
import { postForWhole, wholeHeaders } from '../whole.ts'
import { drawToSdcpp } from './request.ts'
import { type SdcppVideoOptions, sdcppVideo } from './video.ts'

export interface SdcppUpstreamOptions extends SdcppVideoOptions, NamedServer {
  readonly vectors: VectorWork
}

/** stable-diffusion.cpp's server, at a base URL such as `http://127.0.0.1:1234/v1`: one model, one image or video at a time. */
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
