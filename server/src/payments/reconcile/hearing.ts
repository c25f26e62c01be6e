import { refreshReversal } from '../reversals/refresh.ts'
import { refreshSubscriptionCheckout } from '../subscriptions/checkout.ts'
import { refreshSubscription, type SubscriptionRefreshDependencies } from '../subscriptions/refresh.ts'
import { type Refreshed, refreshPayment } from '../topUps/refresh.ts'

/**
 * Returns what is done when a payment provider tells of a change, by a callback or in its list of events. A checkout is one for credit or
 * one for a subscription. `event` is the payment provider's id of the event: told again, it does nothing.
 */
export function hearing(dependencies: SubscriptionRefreshDependencies) {
  return {
    async onCheckout(checkout: string, event: string | null = null): Promise<Refreshed> {
      const heard = await refreshPayment(dependencies, { checkout }, event)
      return heard === 'unknown' ? refreshSubscriptionCheckout(dependencies, { checkout }, event) : heard
    },
    onSubscription: (subscription: string, event: string | null = null): Promise<Refreshed> =>
      refreshSubscription(dependencies, subscription, event),
    onReversal: (reversal: string, event: string | null = null): Promise<Refreshed> =>
      refreshReversal(dependencies, reversal, event),
  }
}
