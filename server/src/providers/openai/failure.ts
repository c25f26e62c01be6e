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
  const code = String(error?.['code'] ?? '')
  return {
    message: typeof outer?.['error'] === 'string' ? outer['error'] : String(error?.['message'] ?? ''),
    type: String(error?.['type'] ?? ''),
    code,
    ...wordsFor(error?.['param'], code),
  }
}

/** The settings that help where a model does not take the field in which the limit of its answer is sent. */
const OTHER_FIELD = {
  max_tokens: "add 'max_tokens_field: max_completion_tokens' to the provider",
  max_completion_tokens: "remove 'max_tokens_field' from the provider",
} as const

/** Returns our words, for the client and the operator, about a parameter of chat that a server names. Clients know one limit: `max_tokens`. */
function wordsFor(param: unknown, code: string): Pick<WireError, 'explained' | 'advice'> {
  if (param === 'max_tokens' || param === 'max_completion_tokens') {
    if (code !== 'unsupported_parameter') {
      return { explained: "This model does not accept this 'max_tokens': give another one, or leave it out." }
    }
    const explained =
      "This model does not take 'max_tokens' as this gateway sends it: leave it out, or ask the operator of the gateway to change its settings."
    return { explained, advice: OTHER_FIELD[param] }
  }
  if (param !== 'temperature') return {}
  return {
    explained: "This model does not accept this 'temperature': leave it out.",
    advice: code.startsWith('unsupported_')
      ? "list the model's 'supported_parameters' without temperature: then such calls are refused before they are sent"
      : null,
  }
}
