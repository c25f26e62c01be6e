/** Statuses that can be set by hand, in the words that providers use. */
export const SUBSCRIPTION_STATUSES = ['active', 'trialing', 'past_due', 'canceled'] as const

/** What an organization is subscribed to, whoever says so. */
export interface Subscription {
  /** Of a plan in the settings file; the plan may be gone from there. */
  readonly planKey: string
  /** In a provider's words. */
  readonly status: string
  /** Inclusive. */
  readonly periodStartMs: number
  /** Exclusive. */
  readonly periodEndMs: number
  readonly cancelAtPeriodEnd: boolean
}

const ENTITLING: ReadonlySet<string> = new Set(['active', 'trialing'])

/** Whether a subscription entitles at an instant: by its status, and within its period. */
export function isEntitled(subscription: Subscription, nowMs: number): boolean {
  const { status, periodStartMs, periodEndMs } = subscription
  return ENTITLING.has(status) && nowMs >= periodStartMs && nowMs < periodEndMs
}
