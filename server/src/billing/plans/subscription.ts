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
  /** While its renewal is being paid it entitles up to here, exclusive. Left out: its renewal is not begun, or is paid. */
  readonly renewalUntilMs?: number
  /** The meter of an earlier period that is carried on. Left out: the meter is the period's own. */
  readonly carriedMeter?: MeterSpan
}

/** The time for which one meter of a plan counts. Its start names it. */
export interface MeterSpan {
  readonly startMs: number
  /** Exclusive. */
  readonly untilMs: number
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

/** Returns the meter on which a subscription counts now, as it was read. */
export function meterOf({ carriedMeter, periodStartMs, periodEndMs }: Subscription): MeterSpan {
  return carriedMeter ?? { startMs: periodStartMs, untilMs: periodEndMs }
}

/**
 * Returns a subscription that comes after `before` at a payment provider, with the meter that it counts on (B10). `before` is null where
 * there was none, and else as it was when the period of `next` began. A period that begins when the earlier one is over has a meter of its
 * own. One that begins earlier carries the meter on until the earlier one would have ended. Where that is the longer part of the new
 * period, the meter stays to its end: two changes at once would else bring the quota of a whole period for the few days that remain.
 * A plan that the operator has set was not paid for, so its meter is not carried on.
 */
export function withMeterOf(before: Subscription | null, next: Subscription): Subscription {
  if (before?.paymentPrice === undefined) return next
  const meter = meterOf(before)
  const { periodStartMs, periodEndMs } = next
  if (meter.startMs === periodStartMs || meter.untilMs <= periodStartMs) return next
  const isLongerPart = meter.untilMs - periodStartMs > periodEndMs - meter.untilMs
  return { ...next, carriedMeter: { startMs: meter.startMs, untilMs: isLongerPart ? periodEndMs : meter.untilMs } }
}

/** Returns `next`, another state of the period of `before`, with the meter that is carried on there, to the new end at most. */
export function keepMeter({ carriedMeter }: Subscription, next: Subscription): Subscription {
  if (carriedMeter === undefined) return next
  const untilMs = Math.min(carriedMeter.untilMs, next.periodEndMs)
  return { ...next, carriedMeter: { ...carriedMeter, untilMs } }
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
export function endsAt({ periodEndMs, cancelAtPeriodEnd, renewalUntilMs = 0 }: Subscription, graceMs: number): number {
  return cancelAtPeriodEnd ? periodEndMs : Math.max(periodEndMs + graceMs, renewalUntilMs)
}

/** Returns whether the period is over at an instant: a subscription that entitles all the same does so by its grace. */
export function hasEnded({ periodEndMs }: Subscription, nowMs: number): boolean {
  return nowMs >= periodEndMs
}
