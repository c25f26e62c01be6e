import type { NamedServer } from '../dialect/remote.ts'
import type { Provider } from '../dialect/spec.ts'
import { type ChatWire, chatHeaders, postChat } from '../dialect/streamed.ts'
import { readChunk } from './events.ts'
import { failureOfStatus } from './failure.ts'
import { toPath, toWire } from './request.ts'

const WIRE: ChatWire = { reader: () => readChunk, takesJson: false, failureOfStatus }

/**
 * A server that speaks Google's generateContent, as the Gemini API does at `https://generativelanguage.googleapis.com/v1beta`. The
 * key is sent as a header, never in the URL.
 */
export function geminiProvider(server: NamedServer): Provider {
  const { name, baseUrl, apiKey, extraHeaders, http, clock } = server
  const credential = apiKey === null ? {} : { 'x-goog-api-key': apiKey }
  const headers = { ...chatHeaders(extraHeaders), ...credential }
  return {
    name,
    async chat(call, signal, connectMs, onWritten) {
      const post = { url: baseUrl + toPath(call.model), headers, body: toWire(call), signal, connectMs, onWritten }
      return postChat(http, clock, post, WIRE)
    },
  }
}
