import { z } from 'zod'
import { editDistance } from '../lib/editDistance.ts'
import type { Path, Report } from './document.ts'

/**
 * The helpers of the settings' schemas: closed objects with "did you mean", and problems in words that say what to
 * do.
 */

/** An object that takes these keys and no other. `hints` say what to do about keys that people are likely to try. */
export function closed<Shape extends z.ZodRawShape>(shape: Shape, hints: Readonly<Record<string, string>> = {}) {
  const known = Object.keys(shape)
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? issue.keys.map((key) => unknownKeyReason(key, known, hints)).join('\n')
        : undefined,
  })
}

/**
 * Reads `value` by `schema` and reports every problem. Where there is one, returns the rest of the value, so that its other
 * mistakes are found in the same run; null when the rest can't be read, or a problem is at a key of `decisive`, on which the
 * meaning of other keys depends.
 */
export function readShape<T>(
  schema: z.ZodType<T>,
  value: unknown,
  path: Path,
  report: Report,
  decisive: readonly string[] = [],
): T | null {
  const parsed = schema.safeParse(value, { error: reasonOf })
  if (parsed.success) return parsed.data
  for (const issue of parsed.error.issues) {
    const at = [...path, ...issue.path.map((step) => (typeof step === 'number' ? step : String(step)))]
    if (issue.code !== 'unrecognized_keys') {
      report(at, issue.message)
      continue
    }
    const reasons = issue.message.split('\n')
    for (const [index, key] of issue.keys.entries()) report([...at, key], reasons[index] ?? issue.message, 'key')
  }
  if (parsed.error.issues.some(({ path: [first] }) => decisive.includes(String(first)))) return null
  return readRest(schema, value, parsed.error.issues)
}

/** A required key takes the section that it is missing from with it, and that one perhaps its own; deeper than this is nothing. */
const ROUNDS_MAX = 8

function readRest<T>(schema: z.ZodType<T>, value: unknown, issues: readonly z.core.$ZodIssue[]): T | null {
  const rest: unknown = structuredClone(value)
  let left = issues
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    for (const issue of left) {
      const keys = issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...issue.path, key]) : [issue.path]
      if (!keys.every((key) => remove(rest, key))) return null
    }
    const parsed = schema.safeParse(rest)
    if (parsed.success) return parsed.data
    left = parsed.error.issues
  }
  return null
}

/** Removes what is at `path`; where nothing is, or in a list, whose places have meaning, what holds it. False at the top. */
function remove(top: unknown, path: readonly PropertyKey[]): boolean {
  const key = path.at(-1)
  if (key === undefined) return false
  const holder = path.slice(0, -1).reduce<unknown>((held, step) => (isHolder(held) ? held[step] : undefined), top)
  if (Array.isArray(holder) || !isHolder(holder) || !Object.hasOwn(holder, key)) return remove(top, path.slice(0, -1))
  delete holder[key]
  return true
}

function isHolder(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === 'object' && value !== null
}

/** Whole numbers from `min` to `max`. */
export function whole(min: number, max: number) {
  return wholeNumber(`must be a whole number from ${min} to ${max}`).min(min).max(max)
}

/** A whole number, with its own words for what is none. */
export function wholeNumber(reason: string) {
  return z.int({ error: (issue) => (issue.code === 'invalid_type' && issue.input !== undefined ? reason : undefined) })
}

/** A duration in seconds; fractions are taken. */
export function seconds(minSeconds: number, maxSeconds: number) {
  return z.number().min(minSeconds).max(maxSeconds)
}

const LABEL_MAX_CHARACTERS = 200

/** One line of text for people. */
export const label = z
  .string()
  .regex(/^[^\p{Cc}]+$/u, 'must be text on one line, and not empty')
  .max(LABEL_MAX_CHARACTERS)

const KEY_SHOWN_MAX_CHARACTERS = 60

function unknownKeyReason(key: string, known: readonly string[], hints: Readonly<Record<string, string>>): string {
  const hint = Object.hasOwn(hints, key) ? hints[key] : undefined
  if (hint !== undefined) return hint.replaceAll('\n', ' ')
  const shown = key.slice(0, KEY_SHOWN_MAX_CHARACTERS).replaceAll(/\p{Cc}/gu, ' ')
  const near = nearest(key, known)
  if (near !== null) return `there is no setting '${shown}': did you mean '${near}'?`
  return `there is no setting '${shown}' here: remove it, or use one of ${known.toSorted().join(', ')}`
}

/** The candidate that `word` is most likely a slip of, or null where none is near. */
export function nearest(word: string, candidates: Iterable<string>): string | null {
  let best: string | null = null
  let bestDistance = Number.POSITIVE_INFINITY
  for (const candidate of candidates) {
    const farthest = Math.max(1, Math.floor(candidate.length / 3))
    if (Math.abs(candidate.length - word.length) > farthest) continue
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance <= farthest && distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: "a section with 'key: value' lines",
  record: "a section with 'key: value' lines",
}

/** A reason that never quotes the value: it may be a credential put in the wrong place. */
function reasonOf(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type': {
      const expected = TYPE_NAMES[issue.expected] ?? issue.expected
      return issue.input === undefined ? `is missing: it must be ${expected}` : `must be ${expected}`
    }
    case 'invalid_value': {
      const choices = `must be ${issue.values.map((value) => `'${String(value)}'`).join(' or ')}`
      return issue.input === undefined ? `is missing: it ${choices}` : choices
    }
    case 'too_small':
      return issue.origin === 'array' || issue.origin === 'string'
        ? 'must not be empty'
        : `must be at least ${issue.minimum}`
    case 'too_big': {
      const unit = issue.origin === 'string' ? ' characters' : issue.origin === 'array' ? ' entries' : ''
      return `must be at most ${issue.maximum}${unit}`
    }
    default:
      return undefined
  }
}
