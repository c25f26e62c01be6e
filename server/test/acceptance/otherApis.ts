/** How a server of each dialect beside `openai` says things, byte for byte as its documentation has it. */

import { END_OF_BODY, head, piece } from '../rawServer.ts'

export interface Counts {
  /** Prompt tokens that were not in the cache. */
  readonly fresh: number
  readonly cached: number
  /** Of the answer, with what was thought. */
  readonly completion: number
}

/** Canned events of one dialect, each sent as one chunk of the stream. */
export interface OtherApi {
  readonly dialect: 'anthropic' | 'gemini'
  /** Added to the server's address in the settings. */
  readonly basePath: string
  /** The line that a call begins with. */
  readonly requestLine: string
  readonly keyHeader: string
  begin(counts: Counts): Buffer
  say(text: string): Buffer
  end(reason: string, counts: Counts): Buffer
  /** The words for an end by itself, at the limit, and by a filter. */
  readonly reasons: { readonly stop: string; readonly length: string; readonly filter: string }
  /** In place of an event. */
  errorEvent(status: number, message: string): Buffer
  /** The body of a refusal. */
  refusal(status: number, message: string): string
}

const event = (data: object, name?: string) =>
  piece(`${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`)
const typed = (type: string, more: object = {}) => event({ type, ...more }, type)

const TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  500: 'api_error',
  529: 'overloaded_error',
}
const anthropicError = (status: number, message: string) => ({
  error: { type: TYPES[status] ?? 'api_error', message },
  request_id: 'req_1',
})

const anthropic: OtherApi = {
  dialect: 'anthropic',
  basePath: '/v1',
  requestLine: 'POST /v1/messages HTTP/1.1',
  keyHeader: 'x-api-key',
  begin: ({ fresh, cached }) =>
    Buffer.concat([
      typed('message_start', {
        message: {
          id: 'msg_1',
          type: 'message',
          role: 'assistant',
          content: [],
          stop_reason: null,
          usage: {
            input_tokens: fresh - 1,
            cache_creation_input_tokens: 1,
            cache_read_input_tokens: cached,
            output_tokens: 1,
          },
        },
      }),
      typed('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
      typed('ping'),
    ]),
  say: (text) => typed('content_block_delta', { index: 0, delta: { type: 'text_delta', text } }),
  end: (stop_reason, { completion }) =>
    Buffer.concat([
      typed('content_block_stop', { index: 0 }),
      typed('message_delta', { delta: { stop_reason }, usage: { output_tokens: completion } }),
      typed('message_stop'),
    ]),
  reasons: { stop: 'end_turn', length: 'max_tokens', filter: 'refusal' },
  errorEvent: (status, message) => typed('error', anthropicError(status, message)),
  refusal: (status, message) => JSON.stringify({ type: 'error', ...anthropicError(status, message) }),
}

const STATUSES: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  503: 'UNAVAILABLE',
}
const geminiError = (code: number, message: string) => ({
  error: { code, message, status: STATUSES[code] ?? 'UNKNOWN' },
})
const geminiUsage = ({ fresh, cached, completion }: Counts) => ({
  promptTokenCount: fresh + cached,
  cachedContentTokenCount: cached,
  candidatesTokenCount: completion - 2,
  thoughtsTokenCount: 2,
  totalTokenCount: fresh + cached + completion,
})
const candidate = (text: string, more: object = {}) => ({
  candidates: [{ content: { role: 'model', parts: [{ text }] }, index: 0, ...more }],
})

const gemini: OtherApi = {
  dialect: 'gemini',
  basePath: '/v1beta',
  requestLine: 'POST /v1beta/models/theirs:streamGenerateContent?alt=sse HTTP/1.1',
  keyHeader: 'x-goog-api-key',
  begin: () => Buffer.alloc(0),
  say: (text) => event({ ...candidate(text), usageMetadata: { promptTokenCount: 3, totalTokenCount: 3 } }),
  end: (finishReason, counts) => event({ ...candidate('', { finishReason }), usageMetadata: geminiUsage(counts) }),
  reasons: { stop: 'STOP', length: 'MAX_TOKENS', filter: 'SAFETY' },
  errorEvent: (status, message) => event(geminiError(status, message)),
  refusal: (status, message) => JSON.stringify([geminiError(status, message)]),
}

export const OTHER_APIS: readonly OtherApi[] = [anthropic, gemini]

/** The head of a response on a connection that is closed after it, so that no call meets the socket of another. */
export function lastHead(contentType = 'text/event-stream', more = ''): string {
  return head('200 OK', contentType, `Connection: close\r\n${more}`)
}

/** A whole response: its head, the parts of a stream, the end of the body. */
export function streamOf(...parts: readonly (Buffer | string)[]): Buffer {
  return Buffer.concat(
    [lastHead(), ...parts.map((part) => Buffer.from(part)), END_OF_BODY].map((part) => Buffer.from(part)),
  )
}
