import { failureOf, type WireError } from '../failure.ts'
import { asObject, type JsonObject, parseObject } from '../json.ts'
import type { UpstreamFailure } from '../spec.ts'

/** An answer that is no success: `status` and the (bounded) text of its body become a failure. */
export function failureOfStatus(status: number, body: string, retryAfterSeconds: number | null): UpstreamFailure {
  return failureOf(status, errorFromWire(parseObject(body)), true, retryAfterSeconds)
}

/**
 * An error object that came where a chunk was due, with status 200 (SGLang refuses long prompts that way). `begun` tells
 * whether anything of an answer had come before it.
 */
export function failureOfChunk(chunk: JsonObject, begun: boolean): UpstreamFailure {
  const error = errorFromWire(chunk)
  const status = Number(error.code)
  return failureOf(status >= 400 && status <= 599 ? status : 500, error, !begun, null)
}

/** Whether a chunk (or a whole JSON answer) is an error object rather than an answer. */
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
