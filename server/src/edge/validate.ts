import type { z } from 'zod'
import { type ErrorCode, type Refusal, refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'

/** A problem that zod found, as much of it as the mapping to the wire needs. */
export type Issue = z.core.$ZodIssue

/** Turns a problem into an endpoint's own words, or null for the ordinary ones. */
export type ExplainIssue = (issue: Issue, body: unknown) => Refusal | null

/** A path in the request as clients write it: `messages[0].content`. */
export function pathOf(path: readonly PropertyKey[]): string {
  let text = ''
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`
    else text += text === '' ? String(part) : `.${String(part)}`
  }
  return text.slice(0, 256)
}

/**
 * Checks a parsed body against its schema (E5): what the schema does not know is 400 `unsupported_parameter`; what is
 * missing, of the wrong type or out of range gets the endpoint's `invalid` code. `null` counts as absent (E7).
 */
export function validate<T>(
  schema: z.ZodType<T>,
  body: unknown,
  invalid: Extract<ErrorCode, 'validation_failed' | 'invalid_request'>,
  explain: ExplainIssue = () => null,
): Result<T> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return refused(refusal(invalid, 'The request body must be a JSON object.'))
  }
  const parsed = schema.safeParse(withoutNulls(body))
  if (parsed.success) return ok(parsed.data)
  const issues = parsed.error.issues
  // An unknown parameter says more about what the caller wants than a missing one.
  const issue = issues.find(({ code }) => code === 'unrecognized_keys') ?? issues[0]
  if (issue === undefined) return refused(refusal(invalid, 'The request body is not valid.'))
  return refused(explain(issue, body) ?? ordinary(issue, invalid))
}

function ordinary(issue: Issue, invalid: ErrorCode): Refusal {
  if (issue.code === 'unrecognized_keys') {
    const param = pathOf([...issue.path, issue.keys[0] ?? ''])
    return refusal('unsupported_parameter', `The parameter '${param}' is not supported here; leave it out.`, { param })
  }
  const param = pathOf(issue.path)
  if (/received undefined$/.test(issue.message)) return refusal(invalid, `'${param}' is required.`, { param })
  const message = issue.message.replace(/^(Invalid input|Too small|Too big): /, '')
  return refusal(invalid, `'${param}': ${message}.`, { param })
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
  let changed: Record<string, unknown> | null = null
  for (const [key, before] of Object.entries(value)) {
    const after = before === null ? undefined : withoutNulls(before)
    if (after === before) continue
    changed ??= { ...value }
    if (after === undefined) delete changed[key]
    else changed[key] = after
  }
  return changed ?? value
}
