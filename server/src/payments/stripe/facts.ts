/** Stripe's objects as facts of payments. Pure. */

import type Stripe from 'stripe'
import type { PlanPrice } from '../../catalog/plan.ts'
import type { CheckoutFacts } from '../provider/payment.ts'
import type { SubscriptionCheckoutFacts, SubscriptionFacts } from '../provider/subscriptionFacts.ts'
import { UnreadableObject } from '../provider/unreadable.ts'

/** The currency in which all is settled (B8). */
export const CURRENCY = 'usd'

/**
 * Returns the facts of a Checkout Session for a payment, retrieved with its PaymentIntent and latest charge expanded. The credit is
 * the amount that was paid, without tax.
 *
 * @throws `UnreadableObject` where it is in another currency than US dollars, which none that we open is.
 */
export function checkoutFactsFromWire(session: Stripe.Checkout.Session): CheckoutFacts {
  const intent = expanded(session.payment_intent)
  if (session.status === 'open') return { state: 'open' }
  if (session.status === 'expired') {
    return { state: 'expired', reason: 'The checkout was not paid in time, or a newer one replaced it.' }
  }
  if (session.payment_status === 'paid' && intent !== null) {
    if (session.currency !== CURRENCY) {
      throw new UnreadableObject({ object: session.id, why: `it was paid in ${session.currency}, not in usd` })
    }
    const tax = session.total_details?.amount_tax ?? 0
    return {
      state: 'paid',
      payment: intent.id,
      amountCents: (session.amount_total ?? 0) - tax,
      grossCents: session.amount_total ?? 0,
      receiptUrl: expanded(intent.latest_charge)?.receipt_url ?? null,
      savedMethod: intent.setup_future_usage === 'off_session' ? idOf(intent.payment_method) : null,
    }
  }
  if (intent?.status === 'canceled' || intent?.status === 'requires_payment_method') {
    return { state: 'failed', reason: 'The payment did not come through. Begin a new one.' }
  }
  return { state: 'processing' }
}

/** Returns the facts of a Checkout Session for a subscription. */
export function subscriptionCheckoutFromWire({
  status,
  subscription,
}: Stripe.Checkout.Session): SubscriptionCheckoutFacts {
  const id = typeof subscription === 'string' ? subscription : subscription?.id
  if (status === 'complete' && id !== undefined) return { state: 'complete', subscription: id }
  return { state: status === 'expired' ? 'expired' : 'open' }
}

/**
 * Returns the facts of a Subscription, retrieved with its latest invoice expanded. Ours have one item; its period is the
 * subscription's. One that is to end within the period ends with it.
 *
 * @throws `UnreadableObject` where it has no item.
 */
export function subscriptionFactsFromWire(subscription: Stripe.Subscription): SubscriptionFacts {
  const [item] = subscription.items.data
  const customer = typeof subscription.customer === 'string' ? subscription.customer : subscription.customer.id
  if (item === undefined) throw new UnreadableObject({ object: subscription.id, why: 'it has no item', customer })
  const invoice = expanded(subscription.latest_invoice)
  const { cancel_at: cancelAt, cancel_at_period_end: cancelAtPeriodEnd } = subscription
  const unpaid = unpaidOf(subscription, invoice)
  return {
    subscription: subscription.id,
    customer,
    status: subscription.status,
    price: item.price.id,
    periodStartMs: item.current_period_start * 1_000,
    periodEndMs: item.current_period_end * 1_000,
    cancelAtPeriodEnd: cancelAtPeriodEnd || (cancelAt !== null && cancelAt <= item.current_period_end),
    createdAtMs: subscription.created * 1_000,
    isPaid: invoice?.status === 'paid' && invoice.amount_paid > 0,
    unpaid,
  }
}

/** Invoices of these states may never be paid. One that the operator has made void is waived. */
const UNPAID: ReadonlySet<string> = new Set(['draft', 'open', 'uncollectible'])

/**
 * Returns what of a subscription is not paid, by its latest invoice. Where the operator sends invoices, or has paused their collection, the
 * operator trusts the customer, and all counts as paid.
 */
function unpaidOf(
  { collection_method: collection, pause_collection: pause }: Stripe.Subscription,
  invoice: Stripe.Invoice | null,
): SubscriptionFacts['unpaid'] {
  if (invoice === null || collection !== 'charge_automatically' || pause !== null) return null
  if (!UNPAID.has(invoice.status ?? '')) return null
  return invoice.billing_reason === 'subscription_create' ? 'all' : 'period'
}

const INTERVALS = ['day', 'week', 'month', 'year'] as const

/** Returns a price; null where it is gone, or is none of a subscription with a fixed amount. */
export function priceFromWire({
  active,
  unit_amount: amountCents,
  currency,
  recurring,
}: Stripe.Price): PlanPrice | null {
  if (!active || amountCents === null || recurring === null) return null
  const interval = INTERVALS.find((each) => each === recurring.interval)
  return interval === undefined ? null : { amountCents, currency, interval, intervalCount: recurring.interval_count }
}

function idOf(reference: string | { readonly id: string } | null): string | null {
  return typeof reference === 'object' ? (reference?.id ?? null) : reference
}

/** Returns an object that was retrieved expanded; null where there is none, or its id alone. */
export function expanded<T extends object>(reference: string | T | null | undefined): T | null {
  return typeof reference === 'object' ? reference : null
}
