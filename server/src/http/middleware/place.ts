import type { Refusal } from '../../lib/errors.ts'
import type { LeavePlace, OpenRequests } from '../limits/openRequests.ts'
import type { Middleware, PendingRequest } from '../pipeline.ts'

/**
 * Takes a place among the open requests of the caller's key, or of the member of a session, and of their organization, before
 * anything of the body is read: 429 `stream_limit_exceeded` where there is none (K4). The pipeline gives it back when the request
 * has ended.
 */
export function place(openRequests: OpenRequests): Middleware {
  return (pending) => {
    const { principal } = pending
    if (principal.kind !== 'apiKey' && principal.kind !== 'session') {
      throw new Error('only the requests of keys and sessions take a place')
    }
    const taken = openRequests.take(principal)
    return taken instanceof Promise ? taken.then((answer) => note(pending, answer)) : note(pending, taken)
  }
}

function note(pending: PendingRequest, taken: LeavePlace | Refusal): Refusal | null {
  if (typeof taken !== 'function') return taken
  pending.leavePlace = taken
  return null
}
