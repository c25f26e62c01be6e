/** Whether the caller of a request under way may still call. */

import { type Refusal, refusal } from '../lib/errors.ts'
import { NO_SUCH_PATH } from './envelopes.ts'
import type { Principal } from './principal.ts'

/** The refusals by which a caller is good no more. Others say only that nobody can tell: it was good when last known. */
const ENDS: ReadonlySet<Refusal['code']> = new Set(['unauthenticated', 'invalid_api_key', 'insufficient_scope'])

const ANOTHER_ORGANIZATION = refusal(
  'unauthenticated',
  'You act for another organization than when this request began. Nothing was done; load the page again.',
)

/** Asks for the caller of a request under way, and whether it may still do this. Null: it may. */
export async function refuseEnded<P extends { readonly principal: Principal }>(
  again: readonly ((pending: P) => Refusal | null | Promise<Refusal | null>)[],
  pending: P,
): Promise<Refusal | null> {
  // The request's own caller stays as it was: a handler may be reading it.
  const copy = { ...pending }
  for (const step of again) {
    const refused = await step(copy)
    if (refused !== null) return refused === NO_SUCH_PATH || ENDS.has(refused.code) ? refused : null
  }
  // A session acts for another organization once its own is deleted, or its person has chosen another one.
  return organizationOf(copy.principal) === organizationOf(pending.principal) ? null : ANOTHER_ORGANIZATION
}

function organizationOf(principal: Principal): string | null {
  return 'organizationId' in principal ? principal.organizationId : null
}
