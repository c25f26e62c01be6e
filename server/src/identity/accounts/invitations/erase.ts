import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { type Clock, DAY_MS } from '../../../lib/time.ts'
import { deleteInvitations, deleteOldInvitations } from './store.ts'

/** How long an invitation is kept behind its expiry, whatever became of it: it has the address of somebody who may never have joined (K8). */
const KEPT_MS = 30 * DAY_MS

/** Deletes all invitations of an organization that is deleted, open or not, with their links and their addresses. */
export function eraseInvitationsOf(tx: Transaction, organizationId: string): Promise<void> {
  return deleteInvitations(tx, organizationId)
}

/** Removes at most `atMost` invitations that expired 30 days ago or earlier, also those that were accepted or withdrawn; returns how many. */
export function sweepInvitations(
  { database, clock }: { readonly database: Queryable; readonly clock: Clock },
  atMost: number,
): Promise<number> {
  return deleteOldInvitations(database, clock.now() - KEPT_MS, atMost)
}
