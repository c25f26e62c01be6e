import type { Database } from '../../infra/postgres/database.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import type { Result } from '../../lib/result.ts'
import type { Clock } from '../../lib/time.ts'
import { countChange } from '../audit/budget.ts'
import type { Actor } from '../audit/entry.ts'
import { inTransaction, type Keep } from '../audit/inTransaction.ts'
import { recordAuditEntry } from '../audit/record.ts'
import { type Organization, parseNotifyAddresses } from './organization.ts'
import { lockOrganization } from './remove.ts'
import { updateNotifyAddressesById } from './store.ts'

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
  return inTransaction(
    database,
    async (tx) => {
      const before = await lockOrganization(tx, organizationId)
      const [was, is] = [before.notifyAddresses.join(', '), addresses.value.join(', ')]
      if (was === is) return before
      await countChange(tx, organizationId, clock.now())
      await updateNotifyAddressesById(tx, organizationId, addresses.value)
      await recordAuditEntry(tx, random, clock.now(), {
        organizationId,
        actor,
        action: 'organization.changed',
        subjectId: organizationId,
        before: { notify_addresses: was },
        after: { notify_addresses: is },
      })
      return { ...before, notifyAddresses: addresses.value }
    },
    keep,
  )
}
