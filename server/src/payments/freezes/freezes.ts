import type { Queryable } from '../../infra/postgres/database.ts'
import { refuse } from '../../lib/errors.ts'
import type { Freeze, FreezeReason } from './freeze.ts'
import { deleteFreezes, insertFreeze, selectFreezes } from './store.ts'

/** Freezes an organization for a reason. Does nothing where it is frozen for the same reason and cause. */
export function freezeOrganization(db: Queryable, organizationId: string, freeze: Freeze): Promise<void> {
  return insertFreeze(db, organizationId, freeze)
}

/**
 * Takes a reason away, of one cause or of all where that is null; other reasons stay. Returns how many freezes there were.
 */
export function unfreezeOrganization(
  db: Queryable,
  organizationId: string,
  reason: FreezeReason,
  cause: string | null = null,
): Promise<number> {
  return deleteFreezes(db, organizationId, reason, cause)
}

/** Returns the freezes of an organization, the oldest first. It is frozen where there is one. */
export function listFreezes(db: Queryable, organizationId: string): Promise<Freeze[]> {
  return selectFreezes(db, organizationId)
}

const FROZEN = 'This organization is frozen: it can’t pay at the moment. Ask the operator of this server.'

/**
 * Refuses with `org-frozen` an organization that is frozen. Call it before the payment provider is asked for a new payment. A freeze that
 * comes just after it is like one that comes after the payment was begun: that payment is still credited (B11).
 */
export async function refuseFrozen(db: Queryable, organizationId: string): Promise<void> {
  if ((await selectFreezes(db, organizationId)).length > 0) refuse('org-frozen', FROZEN)
}
