import type { NamedServer } from '../dialect/remote.ts'
import { type Provider, ProviderFailure } from '../dialect/spec.ts'
import { postForWhole, wholeHeaders } from '../dialect/whole.ts'
import { drawnFromWire, IMAGES_MOST_BYTES } from '../openai/draw.ts'
import { failureOfStatus } from '../openai/failure.ts'
import type { VectorWork } from '../vectors/work.ts'
import { drawToSdcpp } from './request.ts'
import { type SdcppVideoOptions, sdcppVideo } from './video.ts'

export interface SdcppProviderOptions extends SdcppVideoOptions, NamedServer {
  readonly vectors: VectorWork
}

/** stable-diffusion.cpp's server, at a base URL such as `http://127.0.0.1:1234/v1`: one model, one image or video at a time. */
export function sdcppProvider(options: SdcppProviderOptions): Provider {
  const { name, baseUrl, apiKey, extraHeaders, http, clock, vectors } = options
  const headers = wholeHeaders(extraHeaders, apiKey)
  return {
    name,
    // The settings give it no chat models.
    chat: () => Promise.reject(new ProviderFailure('misconfigured', 'this server makes images and videos only')),
    async draw(call, signal, connectMs, memory, onWritten) {
      const pieces = await postForWhole(http, clock, {
        url: `${baseUrl}/images/generations`,
        headers,
        body: drawToSdcpp(call),
        signal,
        connectMs,
        memory,
        onWritten,
        maxBytes: IMAGES_MOST_BYTES,
        isRepeatable: false,
        failureOfStatus,
      })
      return drawnFromWire(pieces, vectors)
    },
    video: sdcppVideo(options),
  }
}
