/** How much of a plan's tokens may be used. Weighted: a model of usage factor 2 spends two per token. */

import { HOUR_MS } from '../lib/time.ts'
export interface PlanQuota {
  /** Of a period, at least 1. */
  readonly inputTokens: number
  readonly outputTokens: number
  /** Input and output together over the last 7 days, at least 1. */
  readonly weeklyTokens: number
  /** Of a period, by list price; 0: there is none. */
  readonly backstopMicrocents: bigint
}

/** The price of a plan at the payment provider. */
export interface PlanPrice {
  /** In the currency's minor unit, such as cents. */
  readonly amountCents: number
  /** ISO 4217, lower case. */
  readonly currency: string
  readonly interval: 'day' | 'week' | 'month' | 'year'
  /** The period is so many intervals, at least 1. */
  readonly intervalCount: number
}

/** A flat tier that organizations may be subscribed to. */
export interface Plan {
  /** The name by which subscriptions refer to the plan. */
  readonly key: string
  /** For people. */
  readonly name: string
  /**
   * Milliseconds past its period's end for which a subscription that is to be renewed still entitles, so that a renewal
   * which comes a little late refuses nobody. One setting for all plans; 0: none.
   */
  readonly graceMs: number
  readonly quota: PlanQuota
  /** The payment provider's id of its price; left out: it can't be bought. A subscription has the plan of its price (B10). */
  readonly paymentPrice?: string
}

/** Returns the plan that a checkout sells where none is named: the first that can be bought. Undefined: none can. */
export function planOnOffer(plans: readonly Plan[]): Plan | undefined {
  return plans.find(({ paymentPrice }) => paymentPrice !== undefined)
}

/** The grace where the settings say nothing: an hour (P7). */
export const DEFAULT_GRACE_MS = HOUR_MS
