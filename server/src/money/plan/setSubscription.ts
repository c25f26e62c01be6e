import type { Queryable } from '../../io/postgres/database.ts'
import { notifySubscription, upsertSubscription } from './store.ts'
import type { Subscription } from './subscription.ts'

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
  await notifySubscription(database, SUBSCRIPTION_CHANNEL, organizationId)
}
