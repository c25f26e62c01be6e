/** Stripe's refunds and disputes, and the lists that tell what Stripe has. */

import Stripe from 'stripe'
import type { Log } from '../../lib/log.ts'
import type { PaymentProvider } from '../provider/provider.ts'
import type { ListedCheckout, ListedReversal, NewRefund, PaymentOwner, ProviderWindow } from '../provider/reversal.ts'
import { asking, eachOf, reading } from './client.ts'
import { expanded } from './facts.ts'
import {
  disputeFactsFromWire,
  disputeStateFromWire,
  refundFactsFromWire,
  refundStateFromWire,
} from './reversalFacts.ts'

type ReversalMethods = Pick<
  PaymentProvider,
  'cancelSubscription' | 'refund' | 'retrieveReversal' | 'retrieveOwner' | 'listCheckouts' | 'listReversals'
>

/** The first letters of Stripe's ids of refunds: `re_`, and `pyr_` of some other ways to pay. */
const REFUND = /^(re|pyr)_/

/** The first letters of Stripe's ids of invoices. A payment has one in place of its own where no money was moved. */
const INVOICE = /^in_/

/** The most that Stripe gives at once. */
const PAGE = 100

/** Returns the part of the payment provider that is about refunds, disputes and lists. */
export function stripeReversals(stripe: Stripe, log: Log): ReversalMethods {
  return {
    async cancelSubscription(id) {
      await asking(log, 'cancel a subscription', async () => {
        const { status } = await stripe.subscriptions.retrieve(id)
        if (status !== 'canceled' && status !== 'incomplete_expired') await stripe.subscriptions.cancel(id)
      })
    },
    refund: (wanted) => asking(log, 'refund a payment', () => refundOnce(stripe, log, wanted)),
    async retrieveReversal(id) {
      if (REFUND.test(id)) {
        const named = { doing: 'retrieve a refund', object: id }
        return reading(log, named, () => stripe.refunds.retrieve(id), refundFactsFromWire)
      }
      const named = { doing: 'retrieve a dispute', object: id }
      return reading(log, named, () => stripe.disputes.retrieve(id), disputeFactsFromWire)
    },
    retrieveOwner: (payment) => asking(log, 'retrieve a payment', () => retrieveOwner(stripe, payment)),
    listCheckouts: (window) => listCheckouts(stripe, log, window),
    listReversals: (window) => listReversals(stripe, log, window),
  }
}

/** Makes a refund, unless Stripe has it already: Stripe forgets idempotency keys after a day, and its metadata never. */
async function refundOnce(stripe: Stripe, log: Log, { payment, amountCents, request }: NewRefund) {
  // The customer's balance at Stripe paid the whole invoice: there is no payment that could be refunded.
  if (INVOICE.test(payment)) return null
  for await (const made of stripe.refunds.list({ payment_intent: payment, limit: PAGE })) {
    if (made.metadata?.['tollgate_refund'] === request) return made.id
  }
  const metadata = { tollgate_refund: request }
  const idempotencyKey = `tollgate:refund:${request}`
  try {
    const params = { payment_intent: payment, amount: amountCents, metadata }
    return (await stripe.refunds.create(params, { idempotencyKey })).id
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripeInvalidRequestError) || error.statusCode !== 400) throw error
    log.warn({ code: error.code, stripeRequest: error.requestId }, 'Stripe does not make a refund that was asked for')
    return null
  }
}

async function retrieveOwner(stripe: Stripe, payment: string): Promise<PaymentOwner | null> {
  const sessions = await stripe.checkout.sessions.list({ payment_intent: payment, expand: ['data.customer'], limit: 1 })
  const [session] = sessions.data
  const checkout = session === undefined ? null : listedCheckoutFromWire(session)
  if (checkout !== null && !checkout.isSubscription) return { kind: 'checkout', checkout }
  const by = { type: 'payment_intent', payment_intent: payment } as const
  const [paid] = (await stripe.invoicePayments.list({ payment: by, limit: 1 })).data
  if (paid === undefined) return ownerNamedIn(await stripe.paymentIntents.retrieve(payment))
  const invoice = await stripe.invoices.retrieve(idOf(paid.invoice))
  const subscription = invoice.parent?.subscription_details?.subscription
  if (subscription === undefined || invoice.customer === null) return ownerNamedIn(invoice)
  return { kind: 'subscription', subscription: idOf(subscription), customer: idOf(invoice.customer) }
}

/** A payment without a checkout is ours where it has an id of ours. */
function ownerNamedIn({ metadata, customer }: Stripe.PaymentIntent | Stripe.Invoice): PaymentOwner | null {
  if (metadata?.['tollgate_payment'] === undefined || customer === null) return null
  return { kind: 'other', customer: idOf(customer) }
}

async function* listCheckouts(stripe: Stripe, log: Log, window: ProviderWindow): AsyncIterable<ListedCheckout> {
  const list = stripe.checkout.sessions.list({ created: createdIn(window), expand: ['data.customer'], limit: PAGE })
  for await (const session of eachOf(log, 'list checkouts', list)) {
    const listed = listedCheckoutFromWire(session)
    if (listed !== null) yield listed
  }
}

async function* listReversals(stripe: Stripe, log: Log, window: ProviderWindow): AsyncIterable<ListedReversal> {
  const created = createdIn(window)
  for await (const refund of eachOf(log, 'list refunds', stripe.refunds.list({ created, limit: PAGE }))) {
    yield { reversal: refund.id, state: refundStateFromWire(refund), createdAtMs: refund.created * 1_000 }
  }
  for await (const dispute of eachOf(log, 'list disputes', stripe.disputes.list({ created, limit: PAGE }))) {
    yield { reversal: dispute.id, state: disputeStateFromWire(dispute), createdAtMs: dispute.created * 1_000 }
  }
}

/** Stripe counts whole seconds. */
function createdIn({ fromMs, untilMs }: ProviderWindow) {
  return { gte: Math.floor(fromMs / 1_000), lt: Math.ceil(untilMs / 1_000) }
}

/** Returns a Checkout Session, listed with its customer expanded; null where it has no customer, as all of ours have. */
function listedCheckoutFromWire(session: Stripe.Checkout.Session): ListedCheckout | null {
  const { customer, metadata } = session
  if (customer === null) return null
  const kept = expanded(customer)
  const organizationId = kept !== null && 'metadata' in kept ? kept.metadata['tollgate_organization'] : undefined
  return {
    checkout: session.id,
    state: session.status === 'complete' ? 'complete' : session.status === 'expired' ? 'expired' : 'open',
    subscription: session.subscription === null ? null : idOf(session.subscription),
    isSubscription: session.mode === 'subscription',
    id: metadata?.['tollgate_payment'] ?? metadata?.['tollgate_checkout'] ?? null,
    organizationId: organizationId ?? null,
    customer: idOf(customer),
    amountCents: (session.amount_total ?? 0) - (session.total_details?.amount_tax ?? 0),
    createdAtMs: session.created * 1_000,
  }
}

function idOf(reference: string | { readonly id: string }): string {
  return typeof reference === 'string' ? reference : reference.id
}
