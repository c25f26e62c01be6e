import { failureOf, MAX_RETRY_AFTER_SECONDS, type WireError } from '../dialect/failure.ts'
import { asObject, type JsonObject } from '../dialect/json.ts'
import type { ProviderFailure } from '../dialect/spec.ts'

/** An answer that is no success: `status` and the (bounded) text of its body become a failure. */
export function failureOfStatus(status: number, body: string, retryAfterSeconds: number | null): ProviderFailure {
  const error = errorIn(parseFirst(body))
  return failureOf(status, errorFromWire(error), true, retryAfterSeconds ?? retryDelayOf(error))
}

/** An error object that came where a chunk was due. `begun` tells whether anything of an answer had come before it. */
export function failureOfChunk(chunk: JsonObject, begun: boolean): ProviderFailure {
  const error = errorIn(chunk)
  const status = Number(error?.['code'])
  return failureOf(status >= 400 && status <= 599 ? status : 500, errorFromWire(error), !begun, retryDelayOf(error))
}

/** A 400 with which the server refuses the key, the account or the place rather than the request. */
const OPERATORS_STATUS = 'FAILED_PRECONDITION'
const OPERATORS_REASON = /^(API_KEY_|SERVICE_DISABLED|BILLING_|CONSUMER_)/

function errorFromWire(error: JsonObject | null): WireError {
  const type = String(error?.['status'] ?? '')
  const reasons = detailsOf(error).map((detail) => String(detail['reason'] ?? ''))
  return {
    message: String(error?.['message'] ?? ''),
    type,
    code: reasons.find((reason) => reason !== '') ?? '',
    isOperators: type === OPERATORS_STATUS || reasons.some((reason) => OPERATORS_REASON.test(reason)),
  }
}

/** The whole seconds of a `RetryInfo` among the details, such as `37s` or `37.8s`, 1 to a day; null where there is none. */
function retryDelayOf(error: JsonObject | null): number | null {
  for (const { retryDelay } of detailsOf(error)) {
    const [, seconds] = /^(\d{1,9}(?:\.\d{1,9})?)s$/.exec(String(retryDelay)) ?? []
    if (seconds !== undefined) return Math.min(Math.max(Math.ceil(Number(seconds)), 1), MAX_RETRY_AFTER_SECONDS)
  }
  return null
}

function detailsOf(error: JsonObject | null): readonly JsonObject[] {
  const details = error?.['details']
  return Array.isArray(details) ? details.map(asObject).filter((detail) => detail !== null) : []
}

function errorIn(body: JsonObject | null): JsonObject | null {
  return asObject(body?.['error'])
}

/** Errors of streamed calls also come as the one entry of an array. */
function parseFirst(body: string): JsonObject | null {
  try {
    const parsed: unknown = JSON.parse(body)
    return asObject(Array.isArray(parsed) ? parsed[0] : parsed)
  } catch {
    return null
  }
}
