/** Stripe as a payment provider: Checkout Sessions, by the official package. */

import Stripe from 'stripe'
import type { Log } from '../../lib/log.ts'
import type { NewCheckout, NewPlanCheckout, OpenedCheckout, PaymentProvider } from '../provider/provider.ts'
import { isMissingObject } from '../provider/unreadable.ts'
import { asking, givenText, reading } from './client.ts'
import {
  CURRENCY,
  checkoutFactsFromWire,
  priceFromWire,
  subscriptionCheckoutFromWire,
  subscriptionFactsFromWire,
} from './facts.ts'
import { listStripeEvents } from './listEvents.ts'
import { createStripeOffSession } from './offSession.ts'
import { stripeReversals } from './reversals.ts'

export interface StripeProviderDependencies {
  readonly stripe: Stripe
  readonly log: Log
  /** Stripe computes tax, and adds it to each amount. */
  readonly automaticTax: boolean
}

export interface StripeProvider extends PaymentProvider {
  /** Returns the currency in which the account settles, such as `usd`. */
  settlementCurrency(): Promise<string | null>
}

/**
 * Every request that makes something has an idempotency key of what it makes, so that it is made once although it is asked for
 * again. Ours are named in the metadata.
 */
export function createStripeProvider({ stripe, log, automaticTax }: StripeProviderDependencies): StripeProvider {
  return {
    name: 'stripe',
    ...createStripeOffSession({ stripe, log, automaticTax }),
    async createCustomer(organizationId) {
      const metadata = { tollgate_organization: organizationId }
      const idempotencyKey = `tollgate:customer:${organizationId}`
      const create = () => stripe.customers.create({ metadata }, { idempotencyKey })
      return reading(log, { doing: 'create a customer', object: null }, create, ({ id }) => givenText(id))
    },
    async openCheckout(wanted) {
      const idempotencyKey = `tollgate:checkout:${wanted.paymentId}`
      const create = () => stripe.checkout.sessions.create(checkoutToWire(wanted, automaticTax), { idempotencyKey })
      return reading(log, { doing: 'open a checkout', object: null }, create, openedFromWire)
    },
    expireCheckout: (checkout) => asking(log, 'expire a checkout', () => expireCheckout(stripe, checkout)),
    async retrieveCheckout(checkout) {
      const expand = ['payment_intent.latest_charge']
      const retrieve = () => stripe.checkout.sessions.retrieve(checkout, { expand })
      return reading(log, { doing: 'retrieve a checkout', object: checkout }, retrieve, checkoutFactsFromWire)
    },
    async openSubscriptionCheckout(wanted) {
      const idempotencyKey = `tollgate:subscription:${wanted.id}`
      const create = () => stripe.checkout.sessions.create(planCheckoutToWire(wanted, automaticTax), { idempotencyKey })
      return reading(log, { doing: 'open a checkout', object: null }, create, openedFromWire)
    },
    async retrieveSubscriptionCheckout(checkout) {
      const retrieve = () => stripe.checkout.sessions.retrieve(checkout)
      return reading(log, { doing: 'retrieve a checkout', object: checkout }, retrieve, subscriptionCheckoutFromWire)
    },
    async retrieveSubscription(subscription) {
      const expand = ['latest_invoice']
      const named = { doing: 'retrieve a subscription', object: subscription }
      const retrieve = () => stripe.subscriptions.retrieve(subscription, { expand })
      return reading(log, named, retrieve, subscriptionFactsFromWire)
    },
    refundSubscription: (subscription) =>
      asking(log, 'refund a surplus subscription', () => refundSubscription(stripe, subscription)),
    async openPortal(customer, returnUrl) {
      const session = { customer, return_url: returnUrl }
      const create = () => stripe.billingPortal.sessions.create(session)
      return reading(log, { doing: 'open the portal', object: null }, create, ({ url }) => givenText(url))
    },
    async readPrice(price) {
      const retrieve = () => stripe.prices.retrieve(price)
      return reading(log, { doing: 'read a price', object: price }, retrieve, priceFromWire).catch((error: unknown) => {
        if (isMissingObject(error, price)) return null
        throw error
      })
    },
    ...stripeReversals(stripe, log),
    listEvents: (window) => listStripeEvents(stripe, log, window),
    async settlementCurrency() {
      const account = await asking(log, 'read the account', () => stripe.accounts.retrieveCurrent())
      return account.default_currency ?? null
    },
  }
}

/** Returns a checkout that was opened. */
function openedFromWire({ id, url }: Stripe.Checkout.Session): OpenedCheckout {
  return { id: givenText(id), url: givenText(url) }
}

/** Expires a checkout that is open. Does nothing where it has ended. */
async function expireCheckout(stripe: Stripe, id: string): Promise<void> {
  const isOpen = async () => (await stripe.checkout.sessions.retrieve(id)).status === 'open'
  if (!(await isOpen())) return
  try {
    await stripe.checkout.sessions.expire(id)
  } catch (error) {
    // Between the look and the expiry another request may have expired it, or a person paid it. Stripe refuses the expiry then.
    if (!(error instanceof Stripe.errors.StripeInvalidRequestError) || (await isOpen())) throw error
  }
}

/** With these codes Stripe says that nothing of a payment is left to give back: a refund or the bank has given back all of it. */
const NOTHING_LEFT: ReadonlySet<string | undefined> = new Set(['charge_already_refunded', 'charge_disputed'])

/**
 * Gives back what was paid of the latest invoice. Each of its payments has an idempotency key, and nothing is left of it afterwards. An
 * invoice that is not paid is made void, so that nobody pays it later, unless a payment of it is under way. Returns whether all is over.
 */
async function refundSubscription(stripe: Stripe, id: string): Promise<boolean> {
  const { latest_invoice: latest } = await stripe.subscriptions.retrieve(id)
  const invoice = typeof latest === 'string' ? latest : latest?.id
  if (invoice === undefined) return true
  // Read before its payments: one that is paid by now has them all.
  const { status } = await stripe.invoices.retrieve(invoice)
  const { data } = await stripe.invoicePayments.list({ invoice })
  const intents = data.flatMap(({ status: isPaid, payment: { payment_intent: intent } }) =>
    intent === undefined ? [] : [{ isPaid: isPaid === 'paid', id: typeof intent === 'string' ? intent : intent.id }],
  )
  for (const paid of intents.filter(({ isPaid }) => isPaid)) {
    const idempotencyKey = `tollgate:surplus:${id}:${paid.id}`
    await stripe.refunds.create({ payment_intent: paid.id }, { idempotencyKey }).catch((error: unknown) => {
      if (!(error instanceof Stripe.errors.StripeError) || !NOTHING_LEFT.has(error.code)) throw error
    })
  }
  if (status !== 'open' && status !== 'uncollectible') return true
  for (const open of intents.filter(({ isPaid }) => !isPaid)) {
    if ((await stripe.paymentIntents.retrieve(open.id)).status === 'processing') return false
  }
  await stripe.invoices.voidInvoice(invoice)
  return true
}

/** A subscription to a plan: its price, once. */
function planCheckoutToWire(wanted: NewPlanCheckout, automaticTax: boolean): Stripe.Checkout.SessionCreateParams {
  const { id, customer, price, successUrl, cancelUrl } = wanted
  const metadata = { tollgate_checkout: id }
  return {
    mode: 'subscription',
    customer,
    client_reference_id: id,
    metadata,
    line_items: [{ price, quantity: 1 }],
    subscription_data: { metadata },
    automatic_tax: { enabled: automaticTax },
    ...(automaticTax ? { customer_update: { address: 'auto' as const } } : {}),
    success_url: successUrl,
    cancel_url: cancelUrl,
  }
}

/** A payment of credit: one line, in US dollars alone, the card kept only if the customer agrees. */
function checkoutToWire(wanted: NewCheckout, automaticTax: boolean): Stripe.Checkout.SessionCreateParams {
  const { paymentId, customer, amountCents, description, savesMethod, successUrl, cancelUrl } = wanted
  const metadata = { tollgate_payment: paymentId }
  return {
    mode: 'payment',
    customer,
    client_reference_id: paymentId,
    metadata,
    line_items: [
      {
        quantity: 1,
        price_data: {
          currency: CURRENCY,
          unit_amount: amountCents,
          product_data: { name: description },
          tax_behavior: 'exclusive',
        },
      },
    ],
    payment_intent_data: { metadata, description, ...(savesMethod ? { setup_future_usage: 'off_session' } : {}) },
    // Where it is not kept for payments that nobody is present at, a person may keep it for the next checkout.
    ...(savesMethod ? {} : { saved_payment_method_options: { payment_method_save: 'enabled' } }),
    adaptive_pricing: { enabled: false },
    automatic_tax: { enabled: automaticTax },
    ...(automaticTax ? { customer_update: { address: 'auto' as const } } : {}),
    success_url: successUrl,
    cancel_url: cancelUrl,
  }
}
