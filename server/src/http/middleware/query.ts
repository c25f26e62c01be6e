import { type Refusal, refusal } from '../../lib/errors.ts'
import { type Envelope, invalidCodeOf } from '../envelopes.ts'
import { quotedNames, together } from '../faults.ts'
import type { Middleware } from '../pipeline.ts'

/**
 * Reads the query. Refuses parameters that are not `known` (E8), all in one message (E17), and those given twice, which others
 * may read otherwise. `hasFields`: the refusal of unknown ones is left to who validates the fields, and names both. `isOpen`: unknown ones are
 * passed over.
 */
export function query(known: readonly string[], hasFields = false, isOpen = false): Middleware {
  return (pending) => {
    const { target, envelope } = pending
    if (target.query === '') return null
    const sent = new URLSearchParams(target.query)
    const refused = isOpen ? null : refuseUnknown(sent, known, envelope)
    if (refused !== null) {
      if (!hasFields) return refused
      pending.unsupported = together(refused, pending.unsupported)
      return null
    }
    const twice = known.find((name) => sent.getAll(name).length > 1)
    if (twice !== undefined) {
      const message = `The query parameter '${twice}' is given more than once; give it once.`
      return refusal(invalidCodeOf(target.path), message, { param: twice })
    }
    pending.query = sent
    return null
  }
}

/** Refuses parameters of a query that are not `known` (E8), all in one message (E17). Null: there are none. */
export function refuseUnknown(sent: URLSearchParams, known: readonly string[], envelope: Envelope): Refusal | null {
  const unknown = [...new Set(sent.keys())].filter((name) => !known.includes(name)).map(shortened)
  const [param] = unknown
  if (param === undefined) return null
  const code = envelope === 'A' ? 'validation_failed' : 'unsupported_parameter'
  const words = unknown.length === 1 ? 'parameter %s is' : 'parameters %s are'
  const allowed = known.length === 0 ? 'this path takes none' : `this path takes ${known.join(', ')}`
  const message = `The query ${words.replace('%s', () => quotedNames(unknown))} not known here: ${allowed}.`
  return refusal(code, message, { param })
}

function shortened(name: string): string {
  return name.slice(0, 64)
}
