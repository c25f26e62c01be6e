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
