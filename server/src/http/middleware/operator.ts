import type { Refusal } from '../../lib/errors.ts'
import { NO_SUCH_PATH } from '../envelopes.ts'
import type { Middleware } from '../pipeline.ts'

/** Refusals of a step that say who is not let in. */
const NOT_LET_IN: ReadonlySet<Refusal['code']> = new Set(['unauthenticated', 'insufficient_scope'])

/** Requires the session of an operator, which `caller` finds: everybody else is answered as if there were no such path, 404. */
export function operatorAlone(caller: Middleware): Middleware {
  return async (pending) => {
    const refused = await caller(pending)
    if (refused !== null) return NOT_LET_IN.has(refused.code) ? NO_SUCH_PATH : refused
    const { principal } = pending
    return principal.kind === 'session' && principal.isOperator ? null : NO_SUCH_PATH
  }
}
