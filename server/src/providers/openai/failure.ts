import { failureOf, type WireError } from '../dialect/failure.ts'
import { asObject, type JsonObject, parseObject } from '../dialect/json.ts'
import type { ProviderFailure } from '../dialect/spec.ts'

/** An answer that is no success: `status` and the (bounded) text of its body become a failure. */
export function failureOfStatus(status: number, body: string, retryAfterSeconds: number | null): ProviderFailure {
  return failureOf(status, errorFromWire(parseObject(body)), true, retryAfterSeconds)
}

/**
 * An error object that came where a chunk was due, with status 200 (SGLang refuses long prompts that way). `begun` tells
 * whether anything of an answer had come before it.
 */
export function failureOfChunk(chunk: JsonObject, begun: boolean): ProviderFailure {
  const error = errorFromWire(chunk)
  const status = Number(error.code)
  return failureOf(status >= 400 && status <= 599 ? status : 500, error, !begun, null)
}

/** Returns whether a chunk (or a whole JSON answer) is an error object rather than an answer. */
export function isErrorObject(chunk: JsonObject): boolean {
  return (chunk['error'] ?? null) !== null || chunk['object'] === 'error'
}

/** The error, in whatever of the usual shapes it comes. */
function errorFromWire(value: unknown): WireError {
  const outer = asObject(value)
  const error = asObject(outer?.['error']) ?? outer
  return {
    message: typeof outer?.['error'] === 'string' ? outer['error'] : String(error?.['message'] ?? ''),
    type: String(error?.['type'] ?? ''),
    code: String(error?.['code'] ?? ''),
  }
}
