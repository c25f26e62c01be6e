import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
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

/** The fields of a change of freezes in the audit log. Customers read it, so that reasons and notes are not among them. */
export interface FrozenFields {
  readonly before: { readonly frozen: boolean }
  readonly after: { readonly frozen: boolean }
}

/**
 * Changes the freezes of an organization in the caller's transaction, and calls `record` with what the audit log says of it where that has
 * changed one. Returns the freezes that are left.
 */
export async function changeFreezes(
  tx: Transaction,
  organizationId: string,
  change: () => Promise<void>,
  record: (fields: FrozenFields) => Promise<void>,
): Promise<Freeze[]> {
  const before = await listFreezes(tx, organizationId)
  await change()
  const after = await listFreezes(tx, organizationId)
  if (before.length !== after.length)
    await record({ before: { frozen: before.length > 0 }, after: { frozen: after.length > 0 } })
  return after
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
