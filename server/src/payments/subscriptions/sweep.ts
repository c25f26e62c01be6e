import { sweepDue } from '../topUps/sweep.ts'
import { refreshSubscriptionCheckout } from './checkout.ts'
import { refreshSubscription, type SubscriptionRefreshDependencies } from './refresh.ts'

/** Retrieves checkouts and subscriptions that are due, although no callback came. */
export async function sweepSubscriptions(
  dependencies: SubscriptionRefreshDependencies,
  isStopping: () => boolean,
): Promise<void> {
  await sweepDue(dependencies, 'subscription_checkouts', isStopping, (id) =>
    refreshSubscriptionCheckout(dependencies, { id }),
  )
  await sweepDue(dependencies, 'payment_subscriptions', isStopping, (subscription) =>
    refreshSubscription(dependencies, subscription),
  )
}
