import { ProviderFailure, type ProviderFailureKind } from './spec.ts'

/** A server's error, whatever its dialect. Fields that the server leaves out are empty. */
export interface WireError {
  readonly message: string
  readonly type: string
  readonly code: string
  /** Said with the status of a bad request, and the operator's matter all the same: a credential, an account, a place. */
  readonly isOperators?: boolean
  /** Words of ours for the client, where more is known than that the request was not taken. */
  readonly explained?: string | null
  /** Words of ours for the operator: the setting with which the server takes such requests. */
  readonly advice?: string | null
}

/**
 * The words with which servers say that a prompt does not fit: OpenAI and vLLM ("maximum context length"), SGLang ("longer
 * than the model's context length"), llama.cpp ("exceeds the available context size", "Context size has been exceeded"),
 * LM Studio and llama-cpp-python ("context window", "context the overflows"), Anthropic ("prompt is too long", "exceed context
 * limit"), Gemini ("exceeds the maximum number of tokens").
 */
const TOO_LONG =
  /maximum context length|context (length|size|window)\b.{0,40}\bexceed|exceed.{0,60}\bcontext (length|size|window|limit)|exceeds the maximum number of tokens|longer than the model'?s? context|context the overflows|prompt is too long|maximum model length/i
const TOO_LONG_CODE = /^(context_length_exceeded|exceed_context_size_error)$/
/** Statuses that can mean "your prompt is too long"; some versions of llama.cpp say it with a 500. */
const TOO_LONG_STATUS = new Set([400, 413, 422, 500])
const REJECTED_STATUS = new Set([400, 413, 422])
/** The server is there and well configured, and can't take this call at this moment. */
const BUSY_STATUS = new Set([408, 409, 425, 429])

/**
 * The failure that an error of a server is. `status` is that of the response, or the one that an error in mid-stream stands
 * for; `untouched` says that nothing of an answer had come, so that another target may be asked where that helps.
 */
export function failureOf(
  status: number,
  error: WireError,
  untouched: boolean,
  retryAfterSeconds: number | null,
): ProviderFailure {
  const kind = kindOf(status, error)
  return new ProviderFailure(kind, describe(status, error), {
    mayFailOver: untouched && kind === 'unavailable',
    retryAfterSeconds: kind === 'unavailable' ? retryAfterSeconds : null,
    publicMessage: kind === 'rejected' ? (error.explained ?? null) : null,
    advice: kind === 'rejected' ? (error.advice ?? null) : null,
    mayAskAgain: untouched && kind === 'unavailable',
  })
}

function kindOf(status: number, error: WireError): ProviderFailureKind {
  if (TOO_LONG_STATUS.has(status)) {
    if (TOO_LONG_CODE.test(error.code) || TOO_LONG_CODE.test(error.type)) return 'context_length'
    if (TOO_LONG.test(error.message)) return 'context_length'
  }
  if (REJECTED_STATUS.has(status)) return error.isOperators === true ? 'misconfigured' : 'rejected'
  if (BUSY_STATUS.has(status) || status >= 500) return 'unavailable'
  // 3xx: the base URL is not where the API is. 401, 402, 403, 404 and the rest of 4xx: key, credit, model name, path.
  return status >= 300 ? 'misconfigured' : 'faulty'
}

/**
 * For the operator's log. The server's message is left out: servers quote the prompt, or part of the key, in it. Its
 * type and code are kept where they look like the words of a program.
 */
function describe(status: number, error: WireError): string {
  const words = [error.type, error.code].filter((word) => /^([A-Za-z_]{1,48}|\d{3})$/.test(word))
  return `status ${status}${words.length > 0 ? ` (${words.join(', ')})` : ''}`
}

/** An answer that makes no sense. */
export function faulty(detail: string): ProviderFailure {
  return new ProviderFailure('faulty', detail)
}

/** A day: a server that says more is not asked again by any client of ours that soon anyway. */
export const MAX_RETRY_AFTER_SECONDS = 86_400

/** The seconds of a `Retry-After` header, either form (RFC 9110, 10.2.3), 1 to a day; null when absent or senseless. */
export function retryAfterFromWire(header: string | null, nowMs: number): number | null {
  if (header === null || !/^\d+$|GMT$/.test(header)) return null
  const seconds = /^\d+$/.test(header) ? Number(header) : Math.ceil((Date.parse(header) - nowMs) / 1000)
  return Number.isNaN(seconds) ? null : Math.min(Math.max(seconds, 1), MAX_RETRY_AFTER_SECONDS)
}
