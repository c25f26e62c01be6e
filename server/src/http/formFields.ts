import type { FormField } from './idempotency/fingerprint.ts'

/**
 * Returns the fields of a form by their names; of several with one name the last. `body` is the parsed body of a route with `body: 'form'`,
 * which takes JSON too: anything in it that is no field with a name and a value, both text, is left out, so that the page answers as it does
 * without the field.
 */
export function formFields(body: unknown): ReadonlyMap<string, string> {
  const entries: readonly unknown[] = Array.isArray(body) ? body : []
  return new Map(entries.filter(isField).map(({ name, value }) => [name, value]))
}

function isField(entry: unknown): entry is FormField {
  if (typeof entry !== 'object' || entry === null || !('name' in entry) || !('value' in entry)) return false
  return typeof entry.name === 'string' && typeof entry.value === 'string'
}
