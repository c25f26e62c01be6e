import type Stripe from 'stripe'
import type { Log } from '../../lib/log.ts'
import type { ListedEvent, ProviderWindow } from '../provider/reversal.ts'
import { eachOf } from './client.ts'
import { namedObject } from './event.ts'

/** The most that Stripe gives at once. */
const PAGE = 100

/** The types of events that are listed, and that docs/payments.md tells the operator to have sent. Stripe takes 20 in a request. */
export const HEARD_TYPES = [
  'checkout.session.completed',
  'checkout.session.expired',
  'checkout.session.async_payment_succeeded',
  'checkout.session.async_payment_failed',
  'customer.subscription.created',
  'customer.subscription.updated',
  'customer.subscription.deleted',
  'refund.created',
  'refund.updated',
  'refund.failed',
  'charge.dispute.created',
  'charge.dispute.updated',
  'charge.dispute.closed',
  'charge.dispute.funds_withdrawn',
  'charge.dispute.funds_reinstated',
] as const

/** Lists the events of a window that are heard about. Stripe keeps them for 30 days. */
export async function* listStripeEvents(
  stripe: Stripe,
  log: Log,
  { fromMs, untilMs }: ProviderWindow,
): AsyncIterable<ListedEvent> {
  // Stripe counts whole seconds.
  const created = { gte: Math.floor(fromMs / 1_000), lt: Math.ceil(untilMs / 1_000) }
  const list = stripe.events.list({ types: [...HEARD_TYPES], created, limit: PAGE })
  for await (const event of eachOf(log, 'list events', list)) {
    const named = namedObject(event)
    if (named !== null) yield { ...named, createdAtMs: event.created * 1_000 }
  }
}
