/** Mail addresses of people that organizations tell of their limits, when such a person is erased. */

import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import type { Actor } from '../audit/entry.ts'
import { recordAuditEntry } from '../audit/record.ts'
import type { Organization } from './organization.ts'
import { lockOrganizationsAround, removeNotifyAddresses, selectNotifying } from './store.ts'

/** Lists at most `atMost` organizations that tell one of these addresses of their limits, in the order of their ids, after `afterId`. */
export function listNotifying(
  database: Queryable,
  addresses: readonly string[],
  afterId: string | null,
  atMost: number,
): Promise<Organization[]> {
  return selectNotifying(database, addresses, afterId, atMost)
}

/**
 * Locks every organization that the erasing of a person changes, always in the same order: those of which the person is a member, and
 * those that send notices of their limits to one of these addresses. `userId` is null where nobody has an account with them.
 */
export function lockOrganizationsOf(
  tx: Transaction,
  userId: string | null,
  addresses: readonly string[],
): Promise<void> {
  return lockOrganizationsAround(tx, userId, addresses)
}

/** Takes these addresses out of those that organizations tell of their limits; returns of how many. The audit log of each says who is told now. */
export async function forgetNotifyAddresses(
  tx: Transaction,
  random: RandomBytes,
  nowMs: number,
  { addresses, actor }: { readonly addresses: readonly string[]; readonly actor: Actor },
): Promise<number> {
  const changed = await removeNotifyAddresses(tx, addresses)
  for (const { id, notifyAddresses } of changed)
    await recordAuditEntry(tx, random, nowMs, {
      organizationId: id,
      actor,
      action: 'organization.changed',
      subjectId: id,
      before: null,
      after: { notify_addresses: notifyAddresses.join(', ') },
    })
  return changed.length
}
