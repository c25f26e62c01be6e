import type { Http } from '../../io/http.ts'
import type { Clock } from '../../kernel/time.ts'
import { type ChatWire, chatHeaders, postChat } from '../call.ts'
import type { Upstream } from '../spec.ts'
import { readChunk } from './events.ts'
import { failureOfStatus } from './failure.ts'
import { toPath, toWire } from './request.ts'

const WIRE: ChatWire = { reader: () => readChunk, takesJson: false, failureOfStatus }

export interface GeminiUpstreamOptions {
  /** Its name in the settings file. */
  readonly name: string
  /** Where `/models/…` is appended, such as `https://generativelanguage.googleapis.com/v1beta`. */
  readonly baseUrl: string
  /** Sent as a header, never in the URL; null: none is sent. */
  readonly apiKey: string | null
  /** Sent with every call. */
  readonly extraHeaders?: Readonly<Record<string, string>>
  readonly http: Http
  readonly clock: Clock
}

/** A server that speaks Google's generateContent, as the Gemini API does. */
export function geminiUpstream(options: GeminiUpstreamOptions): Upstream {
  const { name, baseUrl, apiKey, extraHeaders = {}, http, clock } = options
  const credential = apiKey === null ? {} : { 'x-goog-api-key': apiKey }
  const headers = { ...chatHeaders(extraHeaders), ...credential }
  return {
    name,
    async chat(call, signal, connectMs) {
      const post = { url: baseUrl + toPath(call.model), headers, body: toWire(call), signal, connectMs }
      return postChat(http, clock, post, WIRE)
    },
  }
}
