import { NO_ORGANIZATION } from '../../http/principal.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import { Refused } from '../../lib/errors.ts'
import type { Organization } from './organization.ts'
import { lockUndeletedRow, selectOrganizationById, updateDeleted } from './store.ts'

/**
 * Keeps an organization from being deleted until the end of the transaction. Begin a transaction that gives it something with this.
 * Throws {@link NO_ORGANIZATION} where it is deleted.
 */
export async function keepFromDeletion(tx: Transaction, id: string): Promise<void> {
  if (!(await lockUndeletedRow(tx, id))) throw new Refused(NO_ORGANIZATION)
}

/** Locks an organization that is to be deleted. Throws {@link NO_ORGANIZATION} where it is deleted already. */
export async function lockOrganization(tx: Transaction, id: string): Promise<Organization> {
  const organization = await selectOrganizationById(tx, id, true)
  if (organization === undefined) throw new Refused(NO_ORGANIZATION)
  return organization
}

/** Marks an organization as deleted, which is never taken back, and erases its name and its addresses for notices. */
export function markDeleted(tx: Transaction, id: string, atMs: number): Promise<void> {
  return updateDeleted(tx, id, atMs)
}
