/** Ends all instances of an organization when it is deleted. */

import { lock } from '../../billing/admission/holds/hold.ts'
import { prepareInstanceCharges } from '../../billing/charges/settleInstance.ts'
import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import { endLife, type MoneyMeans } from '../endLife.ts'
import { instantOfSecond, lastSecondAt } from '../job/instance.ts'
import { eraseWordsOf, selectLive } from './store.ts'

/** Makes sure that the last charges of an organization's instances have a place. Before the transaction of {@link endInstancesOf}. */
export async function prepareInstancesEnd(database: Queryable, organizationId: string, nowMs: number): Promise<void> {
  for (const instance of await selectLive(database, organizationId, { locks: false }))
    await prepareInstanceCharges(database, instantOfSecond(instance, instance.settledSecond), nowMs)
}

/**
 * Locks all live instances of an organization until the end of the transaction. Before anything in it locks the account: who bills an
 * instance locks the instance, and then the account.
 */
export async function lockInstancesOf(tx: Transaction, organizationId: string): Promise<void> {
  await selectLive(tx, organizationId, { locks: true })
}

/**
 * Ends all live instances of an organization as if it had deleted each: they are charged up to now, and the driver is to be asked to
 * delete their machines. Returns how many. Locks the instances, and then the account.
 */
export async function endInstancesOf(
  tx: Transaction,
  means: MoneyMeans,
  organizationId: string,
  nowMs: number,
): Promise<number> {
  const live = await selectLive(tx, organizationId, { locks: true })
  if (live.length > 0) await lock(tx, organizationId)
  for (const instance of live) {
    const second = lastSecondAt(instance, nowMs)
    // While this waited for the row, it may have been billed to a later second.
    const endedAtMs = Math.max(nowMs, instantOfSecond(instance, instance.settledSecond))
    await endLife(tx, means, instance, { reason: 'deleted', second, endedAtMs }, nowMs)
  }
  return live.length
}

/** Erases the names that an organization gave its instances, and the addresses of their machines. */
export function eraseInstancesOf(database: Queryable, organizationId: string): Promise<void> {
  return eraseWordsOf(database, organizationId)
}
