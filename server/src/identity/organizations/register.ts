import type { Transaction } from '../../infra/postgres/database.ts'
import type { Organization } from './organization.ts'
import { insertOrganization } from './store.ts'

/** Opens the account of money that belongs to an organization, in its transaction; passed in because money builds on identity. */
export type OpenAccount = (tx: Transaction, organizationId: string) => Promise<void>

/** Makes the organization of somebody who registers, with its account. It is new (K2), and its name may be another's too. */
export async function registerOrganization(
  tx: Transaction,
  openAccount: OpenAccount,
  { id, name, createdAtMs }: Pick<Organization, 'id' | 'name' | 'createdAtMs'>,
): Promise<void> {
  await insertOrganization(tx, { id, name, createdAtMs, standing: 'new', notifyAddresses: [], deletedAtMs: null }, true)
  await openAccount(tx, id)
}
