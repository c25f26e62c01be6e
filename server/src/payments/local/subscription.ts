/** A subscription of the local payment provider, and its price. Pure. */

import { LOCAL_PRICE } from '../../catalog/loadPlan.ts'
import type { PlanPrice } from '../../catalog/plan.ts'

export interface LocalSubscription {
  readonly customer: string
  readonly price: string
  readonly status: 'active' | 'canceled'
  readonly createdAtMs: number
  readonly periodStartMs: number
  readonly periodEndMs: number
  readonly cancelAtPeriodEnd: boolean
}

/** A page where a person manages the subscriptions of a customer. */
export interface LocalPortal {
  readonly customer: string
  readonly returnUrl: string
}

/** Returns the price that an id such as `local_2000_month` stands for: $20 a month. Null: it stands for none. */
export function localPrice(id: string): PlanPrice | null {
  const [, cents, interval] = LOCAL_PRICE.exec(id) ?? []
  if (cents === undefined) return null
  return {
    amountCents: Number(cents),
    currency: 'usd',
    interval: interval as PlanPrice['interval'],
    intervalCount: 1,
  }
}

/** Writes a price as people read it, such as `$20.00 a month`. */
export function localPriceInWords({ amountCents, interval }: Pick<PlanPrice, 'amountCents' | 'interval'>): string {
  return `$${(amountCents / 100).toFixed(2)} a ${interval}`
}

const DAYS = { day: 1, week: 7, month: 0, year: 0 } as const
const MONTHS = { day: 0, week: 0, month: 1, year: 12 } as const

/** Returns the end of a period that begins at an instant: the same day of the next month, or the last of a shorter month. */
export function periodEndOf(price: string, startMs: number): number {
  const interval = localPrice(price)?.interval ?? 'month'
  const start = new Date(startMs)
  const end = new Date(startMs)
  end.setUTCDate(1)
  end.setUTCMonth(start.getUTCMonth() + MONTHS[interval])
  const lastDay = new Date(Date.UTC(end.getUTCFullYear(), end.getUTCMonth() + 1, 0)).getUTCDate()
  end.setUTCDate(Math.min(start.getUTCDate(), lastDay) + DAYS[interval])
  return end.getTime()
}

/** Begins a subscription. */
export function subscribe(customer: string, price: string, nowMs: number): LocalSubscription {
  return {
    customer,
    price,
    status: 'active',
    createdAtMs: nowMs,
    periodStartMs: nowMs,
    periodEndMs: periodEndOf(price, nowMs),
    cancelAtPeriodEnd: false,
  }
}

/** Returns a subscription as it is at an instant: renewed at each period's end, or ended at the one where it was to be. */
export function subscriptionAt(subscription: LocalSubscription, nowMs: number): LocalSubscription {
  let current = subscription
  while (current.status === 'active' && nowMs >= current.periodEndMs) {
    if (current.cancelAtPeriodEnd) return { ...current, status: 'canceled' }
    const periodStartMs = current.periodEndMs
    current = { ...current, periodStartMs, periodEndMs: periodEndOf(current.price, periodStartMs) }
  }
  return current
}
