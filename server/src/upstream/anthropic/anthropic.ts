import type { Http } from '../../io/http.ts'
import type { Clock } from '../../kernel/time.ts'
import { type ChatWire, chatHeaders, postChat } from '../call.ts'
import type { Upstream } from '../spec.ts'
import { messageReader } from './events.ts'
import { failureOfStatus } from './failure.ts'
import { toWire } from './request.ts'

/** The version of the wire format that is spoken here. */
const VERSION = '2023-06-01'

const WIRE: ChatWire = { reader: messageReader, takesJson: false, failureOfStatus }

export interface AnthropicUpstreamOptions {
  /** Its name in the settings file. */
  readonly name: string
  /** Where `/messages` is appended, such as `https://api.anthropic.com/v1`. */
  readonly baseUrl: string
  /** Null: none is sent. */
  readonly apiKey: string | null
  /** Sent with every call, such as `anthropic-beta`. */
  readonly extraHeaders?: Readonly<Record<string, string>>
  readonly http: Http
  readonly clock: Clock
}

/** A server that speaks Anthropic's Messages API. */
export function anthropicUpstream(options: AnthropicUpstreamOptions): Upstream {
  const { name, baseUrl, apiKey, extraHeaders = {}, http, clock } = options
  const credential = apiKey === null ? {} : { 'x-api-key': apiKey }
  const headers = { ...chatHeaders(extraHeaders), 'anthropic-version': VERSION, ...credential }
  const url = `${baseUrl}/messages`
  return {
    name,
    chat: async (call, signal, connectMs) =>
      postChat(http, clock, { url, headers, body: toWire(call), signal, connectMs }, WIRE),
  }
}
