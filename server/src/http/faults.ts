/** Makes one refusal of all that is wrong with a request (E5, E17). */

import type { z } from 'zod'
import { type ErrorCode, type Refusal, refusal } from '../lib/errors.ts'
import type { Envelope } from './envelopes.ts'

/** A problem that zod found, as much of it as the mapping to the wire needs. */
export type Issue = z.core.$ZodIssue

/** Turns a problem into an endpoint's own words, or null for the ordinary ones. One of unknown keys has one key. */
export type ExplainIssue = (issue: Issue, body: unknown) => Refusal | null

/** The codes of an endpoint's faults. */
export interface FaultCodes {
  /** Of a field that is missing, of the wrong type or out of range. */
  readonly invalid: Extract<ErrorCode, 'validation_failed' | 'invalid_request' | 'validation-error'>
  /** Of a field that the endpoint does not have. */
  readonly unknown: Extract<ErrorCode, 'validation_failed' | 'unsupported_parameter' | 'validation-error'>
}

/** Names in one message: a client that sent more has not read the description. */
const NAMED_MOST = 20

/** Other problems that are looked at for a parameter that is not supported. */
const EXPLAINED_MOST = 20

/** A path in the request as clients write it: `messages[0].content`. */
export function pathOf(path: readonly PropertyKey[]): string {
  let text = ''
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`
    else text += text === '' ? String(part) : `.${String(part)}`
  }
  return text.slice(0, 256)
}

/** Writes names as a list for a sentence: `'a', 'b' and 'c'`. Beyond twenty of them it says how many more of `count` there are. */
export function quotedNames(names: readonly string[], count = names.length): string {
  const quoted = names.slice(0, NAMED_MOST).map((name) => `'${name}'`)
  const last = count > quoted.length ? `${count - quoted.length} more` : quoted.pop()
  return quoted.length === 0 ? `${last}` : `${quoted.join(', ')} and ${last}`
}

/**
 * Returns the refusal of a body with these issues, of which there is at least one. Parameters that are not supported go before
 * wrong values: the message names all of them, `param` is the first. Else it is the first wrong value.
 */
export function refusalOf(issues: readonly Issue[], body: unknown, codes: FaultCodes, explain: ExplainIssue): Refusal {
  const unsupported: Unsupported = { entries: [], count: 0 }
  const others: Refusal[] = []
  for (const issue of issues) {
    if (issue.code === 'unrecognized_keys') addUnknown(unsupported, issue, body, explain)
    else if (others.length < EXPLAINED_MOST) others.push(explain(issue, body) ?? wrongValue(issue, body, codes.invalid))
  }
  unsupported.entries.push(...others.filter(({ code }) => code === 'unsupported_parameter'))
  const [first] = unsupported.entries
  if (first === undefined) return others[0] ?? refusal(codes.invalid, 'The request body is not valid.')
  const message = wordsOf(unsupported, codes.unknown)
  return typeof first === 'string' ? refusal(codes.unknown, message, { param: first }) : { ...first, message }
}

/** The parameters of a request that are not supported. */
interface Unsupported {
  /** In their order: the path of a parameter, or the endpoint's own words about one. */
  readonly entries: (string | Refusal)[]
  /** How many there are without words of the endpoint; of these, the first twenty are among the entries. */
  count: number
}

/** Refuses parameters of a query that are not `known` (E8), all in one message (E17). Null: there are none. */
export function refuseUnknownQuery(
  sent: URLSearchParams,
  known: readonly string[],
  envelope: Envelope,
): Refusal | null {
  const unknown = [...new Set(sent.keys())].filter((name) => !known.includes(name)).map((name) => name.slice(0, 64))
  const [param] = unknown
  if (param === undefined) return null
  const code = envelope === 'A' ? 'validation_failed' : 'unsupported_parameter'
  const words = unknown.length === 1 ? 'parameter %s is' : 'parameters %s are'
  const allowed = known.length === 0 ? 'this path takes none' : `this path takes ${known.join(', ')}`
  const message = `The query ${words.replace('%s', () => quotedNames(unknown))} not known here: ${allowed}.`
  return refusal(code, message, { param })
}

/** Returns one refusal of two that say what is not supported: the words of both where they have one code, else the first (E17). */
export function together(first: Refusal, second: Refusal | undefined): Refusal {
  return first.code === second?.code ? { ...first, message: `${first.message} ${second.message}` } : first
}

type UnknownKeys = Extract<Issue, { code: 'unrecognized_keys' }>

function addUnknown(unsupported: Unsupported, issue: UnknownKeys, body: unknown, explain: ExplainIssue): void {
  for (const key of issue.keys) {
    const explained = unsupported.count < NAMED_MOST ? explain({ ...issue, keys: [key] }, body) : null
    if (explained === null) unsupported.count += 1
    if (unsupported.count <= NAMED_MOST) unsupported.entries.push(explained ?? pathOf([...issue.path, key]))
  }
}

const WORDS: Readonly<Record<FaultCodes['unknown'], readonly [one: string, several: string]>> = {
  unsupported_parameter: [
    'The parameter % is not supported here; leave it out.',
    'The parameters % are not supported here; leave them out.',
  ],
  'validation-error': ['There is no field % here; leave it out.', 'There are no fields % here; leave them out.'],
  validation_failed: ['There is no field % here; leave it out.', 'There are no fields % here; leave them out.'],
}

/** A sentence that names the parameters without words of their own, where the first of them stands, and the words of the others. */
function wordsOf({ entries, count }: Unsupported, code: FaultCodes['unknown']): string {
  const names = entries.filter((entry) => typeof entry === 'string')
  const [one, several] = WORDS[code]
  const named = (count === 1 ? one : several).replace('%', () => quotedNames(names, count))
  const sentences = entries.flatMap((entry) => {
    if (typeof entry !== 'string') return [entry.message]
    return entry === names[0] ? [named] : []
  })
  return sentences.join(' ')
}

function wrongValue(issue: Issue, body: unknown, invalid: ErrorCode): Refusal {
  const param = pathOf(issue.path)
  if (isAbsent(issue, body)) return refusal(invalid, `'${param}' is required.`, { param })
  const message = issue.message.replace(/^(Invalid input|Invalid option|Too small|Too big): /, '')
  return refusal(invalid, `'${param}': ${message}.`, { param })
}

/** Returns whether there is no value; null counts as none (E7). */
function isAbsent({ message, code, path }: Issue, body: unknown): boolean {
  if (/received undefined$/.test(message)) return true
  // A choice of words does not say what came in place of one.
  if (code !== 'invalid_value') return false
  let value: unknown = body
  for (const part of path) value = (value as Record<PropertyKey, unknown> | null | undefined)?.[part]
  return (value ?? null) === null
}
