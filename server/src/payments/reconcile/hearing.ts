import type { ToldKind } from '../provider/reversal.ts'
import { isMissingObject } from '../provider/unreadable.ts'
import { refreshReversal } from '../reversals/refresh.ts'
import { refreshSubscriptionCheckout } from '../subscriptions/checkout.ts'
import { refreshSubscription, type SubscriptionRefreshDependencies } from '../subscriptions/refresh.ts'
import { type Refreshed, refreshPayment } from '../topUps/refresh.ts'

/**
 * Retrieves an object that has changed, and applies what was retrieved. `event` is the payment provider's id of the event that tells of the
 * change: told again, it does nothing.
 */
type Hear = (object: string, event?: string | null) => Promise<Refreshed>

export type Hearing = Readonly<Record<ToldKind, Hear>>

/**
 * Returns what is done when a payment provider tells of a change, by a callback or in its list of events. A checkout is one for credit or
 * one for a subscription. An object that the payment provider does not have is `unknown`: nothing of it can be applied.
 */
export function hearing(dependencies: SubscriptionRefreshDependencies): Hearing {
  return {
    checkout: unlessMissing(async (checkout, event = null) => {
      const heard = await refreshPayment(dependencies, { checkout }, event)
      return heard === 'unknown' ? refreshSubscriptionCheckout(dependencies, { checkout }, event) : heard
    }),
    subscription: unlessMissing((subscription, event = null) => refreshSubscription(dependencies, subscription, event)),
    reversal: unlessMissing((reversal, event = null) => refreshReversal(dependencies, reversal, event)),
  }
}

function unlessMissing(hear: Hear): Hear {
  return async (object, event) => {
    try {
      return await hear(object, event)
    } catch (error) {
      if (isMissingObject(error, object)) return 'unknown'
      throw error
    }
  }
}
