import type { Plan } from '../../catalog/plan.ts'

/** Statuses that can be set by hand, in the words that providers use. */
export const SUBSCRIPTION_STATUSES = ['active', 'trialing', 'past_due', 'canceled'] as const

/** The subscription of an organization. */
export interface Subscription {
  /**
   * Of a plan in the settings file; the plan may be gone from there. With a price it is the plan that this price stood for
   * when the row was written.
   */
  readonly planKey: string
  /** The payment provider's id of the price that is paid, which says the plan (B10). Left out: the operator has set the plan. */
  readonly paymentPrice?: string
  /** In a provider's words. */
  readonly status: string
  /** Inclusive. */
  readonly periodStartMs: number
  /** Exclusive. */
  readonly periodEndMs: number
  readonly cancelAtPeriodEnd: boolean
}

const ENTITLING: ReadonlySet<string> = new Set(['active', 'trialing'])

/** Returns the plan of a subscription by the settings in force; undefined where they have none for it. */
export function planOfSubscription(
  plans: readonly Plan[],
  { planKey, paymentPrice }: Pick<Subscription, 'planKey' | 'paymentPrice'>,
): Plan | undefined {
  return paymentPrice === undefined
    ? plans.find(({ key }) => key === planKey)
    : plans.find((plan) => plan.paymentPrice === paymentPrice)
}

/** Returns the key that names the plan of a price which no plan of the settings has. No plan can have it. */
export function keyOfUnknownPrice(paymentPrice: string): string {
  return `price:${paymentPrice}`
}

/**
 * Returns whether a subscription entitles at an instant: by its status, within its period, and for `graceMs`
 * milliseconds after it where it is to be renewed (P7).
 */
export function isEntitled(subscription: Subscription, graceMs: number, nowMs: number): boolean {
  return (
    ENTITLING.has(subscription.status) && nowMs >= subscription.periodStartMs && nowMs < endsAt(subscription, graceMs)
  )
}

/** The instant from which a subscription of an entitling status entitles no more. */
export function endsAt({ periodEndMs, cancelAtPeriodEnd }: Subscription, graceMs: number): number {
  return cancelAtPeriodEnd ? periodEndMs : periodEndMs + graceMs
}

/** Returns whether the period is over at an instant: a subscription that entitles all the same does so by its grace. */
export function hasEnded({ periodEndMs }: Subscription, nowMs: number): boolean {
  return nowMs >= periodEndMs
}
