/** A JSON object whose fields are still to be looked at. */
export type JsonObject = { readonly [name: string]: unknown }

/** The value as an object, or null if it is anything else (an array too). */
export function asObject(value: unknown): JsonObject | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : null
}

/** The value if it is a string with something in it, else null. */
export function asText(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/** The text as a JSON object, or null if it is anything else. */
export function parseObject(text: string): JsonObject | null {
  try {
    return asObject(JSON.parse(text))
  } catch {
    return null
  }
}

/**
 * The first object of a list whose `index` is 0 or not there; null where the list has none. We ask for one answer only:
 * whatever else a server puts beside it belongs to no answer of ours.
 */
export function firstOfIndex0(list: unknown): JsonObject | null {
  if (!Array.isArray(list)) return null
  for (const value of list) {
    const object = asObject(value)
    if (object !== null && (object['index'] ?? 0) === 0) return object
  }
  return null
}

/** No model counts a billion tokens in one call: beyond it a count is a mistake, and it would be charged. */
const MAX_TOKENS = 1_000_000_000

/** A count of tokens that can be one: a whole number that is neither negative nor absurd. */
export function isTokenCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= MAX_TOKENS
}
