import { refusal } from '../../lib/errors.ts'
import { invalidCodeOf } from '../envelopes.ts'
import { refuseUnknownQuery, together } from '../faults.ts'
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
    const refused = isOpen ? null : refuseUnknownQuery(sent, known, envelope)
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
