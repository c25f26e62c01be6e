import type { z } from 'zod'
import { refusal } from '../lib/errors.ts'
import { ok, type Result, refused } from '../lib/result.ts'
import { type ExplainIssue, type FaultCodes, refusalOf } from './faults.ts'

/**
 * Checks a parsed body against its schema (E5): what the schema does not know is `unknown`, by default 400
 * `unsupported_parameter`; what is missing, of the wrong type or out of range gets the endpoint's `invalid` code. `null` counts
 * as absent (E7).
 */
export function validate<T>(
  schema: z.ZodType<T>,
  body: unknown,
  invalid: FaultCodes['invalid'],
  explain: ExplainIssue = () => null,
  unknown: FaultCodes['unknown'] = 'unsupported_parameter',
): Result<T> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return refused(refusal(invalid, 'The request body must be a JSON object.'))
  }
  const parsed = schema.safeParse(holdsNull(body) ? withoutNulls(body) : body)
  if (parsed.success) return ok(parsed.data)
  return refused(refusalOf(parsed.error.issues, body, { invalid, unknown }, explain))
}

/**
 * Returns whether there is a property that is null, as in few bodies. Makes nothing: tens of thousands of values may
 * have to be passed.
 */
function holdsNull(value: object): boolean {
  if (Array.isArray(value)) return value.some((each) => typeof each === 'object' && each !== null && holdsNull(each))
  for (const key in value) {
    const each: unknown = (value as Record<string, unknown>)[key]
    if (each === null || (typeof each === 'object' && holdsNull(each))) return true
  }
  return false
}

/** The body with every property that is null left out. Copies only what holds one. */
function withoutNulls(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    let changed: unknown[] | null = null
    for (let index = 0; index < value.length; index += 1) {
      const before = value[index]
      const after = withoutNulls(before)
      if (after !== before) {
        changed ??= [...value]
        changed[index] = after
      }
    }
    return changed ?? value
  }
  let isChanged = false
  const kept: [string, unknown][] = []
  for (const [key, before] of Object.entries(value)) {
    const after = before === null ? undefined : withoutNulls(before)
    if (after !== before) isChanged = true
    if (after !== undefined) kept.push([key, after])
  }
  return isChanged ? Object.fromEntries(kept) : value
}
