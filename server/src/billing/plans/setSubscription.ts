import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import { endSubscription, notifySubscription, selectSubscription, upsertSubscription } from './store.ts'
import { type Subscription, withMeterOf } from './subscription.ts'

/** The channel on which processes hear that a subscription has changed; the payload is an organization's id. */
export const SUBSCRIPTION_CHANNEL = 'tollgate_subscription'

/**
 * Sets what an organization is subscribed to, and tells every process. Calls under way keep what was decided for them.
 * Rejects when the processes could not be told: it is set then, they see it within a second, and setting it again is safe.
 */
export async function setSubscription(
  database: Queryable,
  organizationId: string,
  subscription: Subscription,
  atMs: number,
): Promise<void> {
  await upsertSubscription(database, organizationId, subscription, atMs)
  await tellSubscription(database, organizationId)
}

/**
 * Sets what an organization is subscribed to at a payment provider, in the caller's transaction, which has locked the organization's
 * customer. The meter is carried on while the period before has not ended (B10). Tell the processes after the commit.
 */
export async function putSubscription(
  tx: Transaction,
  organizationId: string,
  subscription: Subscription,
  atMs: number,
): Promise<void> {
  const before = await selectSubscription(tx, organizationId, subscription.periodStartMs)
  await upsertSubscription(tx, organizationId, withMeterOf(before, subscription), atMs)
}

/** Ends what an organization is subscribed to, in the transaction that deletes it, whoever has set it. */
export function endSubscriptionOf(tx: Transaction, organizationId: string, atMs: number): Promise<void> {
  return endSubscription(tx, organizationId, atMs)
}

/** Tells every process that the subscription of an organization has changed. */
export function tellSubscription(database: Queryable, organizationId: string): Promise<void> {
  return notifySubscription(database, SUBSCRIPTION_CHANNEL, organizationId)
}
