import type { Transaction } from '../../../infra/postgres/database.ts'
import { deleteInvitations } from './store.ts'

/** Deletes all invitations of an organization that is deleted, open or not, with their links and their addresses. */
export function eraseInvitationsOf(tx: Transaction, organizationId: string): Promise<void> {
  return deleteInvitations(tx, organizationId)
}
