import { failureOf, type WireError } from '../dialect/failure.ts'
import { asObject, type JsonObject, parseObject } from '../dialect/json.ts'
import type { ProviderFailure } from '../dialect/spec.ts'

/** An answer that is no success: `status` and the (bounded) text of its body become a failure. */
export function failureOfStatus(status: number, body: string, retryAfterSeconds: number | null): ProviderFailure {
  return failureOf(status, errorFromWire(parseObject(body)), true, retryAfterSeconds)
}

/** The statuses that the types of errors come with, for those that come in mid-stream. */
const STATUS_BY_TYPE: ReadonlyMap<string, number> = new Map([
  ['invalid_request_error', 400],
  ['authentication_error', 401],
  ['billing_error', 402],
  ['permission_error', 403],
  ['not_found_error', 404],
  ['request_too_large', 413],
  ['rate_limit_error', 429],
  ['api_error', 500],
  ['timeout_error', 504],
  ['overloaded_error', 529],
])

/** An `error` event. `begun` tells whether anything of an answer had come before it. */
export function failureOfEvent(event: JsonObject, begun: boolean): ProviderFailure {
  const error = errorFromWire(event)
  return failureOf(STATUS_BY_TYPE.get(error.type) ?? 500, error, !begun, null)
}

/** An account without credit, or at the limit that its owner set, is told with a 400, as a client's mistake is. */
const OPERATORS_WORDS = /credit balance is too low|reached your specified .{0,40}usage limits?/i

/** The requests that some models refuse and others take, and our words for each. */
const EXPLAINED: readonly (readonly [RegExp, string])[] = [
  [/^`?temperature\b/, 'This model does not accept this temperature: leave the parameter out.'],
  [/assistant message prefill/, "This model requires that the last message has the role 'user'."],
]

function errorFromWire(body: JsonObject | null): WireError {
  const error = asObject(body?.['error'])
  const message = String(error?.['message'] ?? '')
  return {
    message,
    type: String(error?.['type'] ?? ''),
    code: '',
    isOperators: OPERATORS_WORDS.test(message),
    explained: EXPLAINED.find(([words]) => words.test(message))?.[1] ?? null,
  }
}
