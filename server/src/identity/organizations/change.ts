import type { Database, Transaction } from '../../infra/postgres/database.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import type { Result } from '../../lib/result.ts'
import type { Clock } from '../../lib/time.ts'
import { countChange } from '../audit/budget.ts'
import type { Actor } from '../audit/entry.ts'
import { inTransaction, type Keep } from '../audit/inTransaction.ts'
import { recordAuditEntry } from '../audit/record.ts'
import { type Organization, parseNotifyAddresses } from './organization.ts'
import { lockOrganization } from './remove.ts'
import { updateNotifyAddresses } from './store.ts'

export interface OrganizationDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
}

/**
 * Sets who is told of an organization's limits and low balance. Refused (`validation_failed`) where something is no mail address, and beyond
 * the organization's budget of changes (K7).
 */
export async function changeNotifyAddresses(
  { database, clock, random }: OrganizationDependencies,
  { organizationId, actor }: { readonly organizationId: string; readonly actor: Actor },
  texts: readonly string[],
  keep: Keep<Organization>,
): Promise<Result<Organization>> {
  const addresses = parseNotifyAddresses(texts)
  if (!addresses.ok) return addresses
  const count = (tx: Transaction) => countChange(tx, organizationId, clock.now())
  const whose = { organizationId, actor }
  return inTransaction(
    database,
    organizationId,
    (tx) => putNotifyAddresses(tx, { clock, random }, whose, addresses.value, count),
    keep,
  )
}

/** Sets the addresses in the caller's transaction, and says so in the audit log. `count` is called first where they differ. */
export async function putNotifyAddresses(
  tx: Transaction,
  { clock, random }: Omit<OrganizationDependencies, 'database'>,
  { organizationId, actor }: { readonly organizationId: string; readonly actor: Actor },
  addresses: readonly string[],
  count: (tx: Transaction) => Promise<unknown> = async () => {},
): Promise<Organization> {
  const before = await lockOrganization(tx, organizationId)
  const [was, is] = [before.notifyAddresses.join(', '), addresses.join(', ')]
  if (was === is) return before
  await count(tx)
  await updateNotifyAddresses(tx, organizationId, addresses)
  await recordAuditEntry(tx, random, clock.now(), {
    organizationId,
    actor,
    action: 'organization.changed',
    subjectId: organizationId,
    before: { notify_addresses: was },
    after: { notify_addresses: is },
  })
  return { ...before, notifyAddresses: addresses }
}
