import type { NamedServer } from '../dialect/remote.ts'
import type { Provider } from '../dialect/spec.ts'
import { type ChatWire, chatHeaders, postChat } from '../dialect/streamed.ts'
import { messageReader } from './events.ts'
import { failureOfStatus } from './failure.ts'
import { toWire } from './request.ts'

/** The version of the wire format that is spoken here. */
const VERSION = '2023-06-01'

const WIRE: ChatWire = { reader: messageReader, takesJson: false, failureOfStatus }

/** A server that speaks Anthropic's Messages API, at a base URL such as `https://api.anthropic.com/v1`. */
export function anthropicProvider(server: NamedServer): Provider {
  const { name, baseUrl, apiKey, extraHeaders, http, clock } = server
  const credential = apiKey === null ? {} : { 'x-api-key': apiKey }
  const headers = { ...chatHeaders(extraHeaders), 'anthropic-version': VERSION, ...credential }
  const url = `${baseUrl}/messages`
  return {
    name,
    chat: async (call, signal, connectMs, onWritten) =>
      postChat(http, clock, { url, headers, body: toWire(call), signal, connectMs, onWritten }, WIRE),
  }
}
