import type { Queryable } from '../../infra/postgres/database.ts'
import { hasSubscriptionEnded } from '../provider/subscriptionFacts.ts'
import { selectProviderSubscriptions } from './store.ts'

/** Returns whether an organization has a subscription at a payment provider that has not ended. */
export async function hasLiveSubscription(database: Queryable, organizationId: string): Promise<boolean> {
  const all = await selectProviderSubscriptions(database, organizationId)
  return all.some(({ status }) => !hasSubscriptionEnded(status))
}
