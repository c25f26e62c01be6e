/** The refunds, disputes and lists of the server that stands in for Stripe. */

import { isOfTypes, tellStripe } from './stripeEvents.ts'
import { type StripeFields as Fields, type StripeObject, stripeSection as section } from './stripeObjects.ts'
import type { StripeState } from './stripeServer.ts'

export interface ReversalActs {
  /** Refunds the payment of a checkout on Stripe's pages; returns the refund's id. Null: all of it. */
  refund(session: string, amountCents?: number | null): string
  /** The bank disputes the payment of a checkout; returns the dispute's id. An inquiry moves nothing. */
  dispute(session: string, options?: { amountCents?: number; isInquiry?: boolean }): string
  /** A dispute ends, or an inquiry becomes a dispute. */
  decide(dispute: string, status: 'won' | 'lost' | 'needs_response'): void
  /** A refund fails after all. */
  failRefund(refund: string): void
  /** Makes an object that no request of Tollgate's made. */
  make(prefix: string, object: string, body: Record<string, unknown>): StripeObject
  /** Forgets idempotency keys, as Stripe does after a day. */
  forgetKeys(): void
}

export function reversalActs(state: StripeState): ReversalActs {
  const intentOf = (session: string) => state.find(String(state.find(session)['payment_intent']))
  return {
    refund(session, amountCents = null) {
      const fields = new Map([['payment_intent', intentOf(session).id]])
      if (amountCents !== null) fields.set('amount', String(amountCents))
      const made = makeRefund(state, fields)
      if (typeof made === 'string') throw new Error(made)
      return made.id
    },
    dispute(session, { amountCents, isInquiry = false } = {}) {
      const intent = intentOf(session)
      const dispute = state.make('du', 'dispute', {
        payment_intent: intent.id,
        amount: amountCents ?? intent['amount'],
        currency: 'usd',
        status: isInquiry ? 'warning_needs_response' : 'needs_response',
        balance_transactions: [],
      })
      if (!isInquiry) move(state, dispute, -1)
      tellStripe(state, 'charge.dispute.created', dispute)
      return dispute.id
    },
    decide(id, status) {
      const dispute = state.find(id)
      const moved = dispute['balance_transactions'] as object[]
      if (status === 'needs_response' && moved.length === 0) move(state, dispute, -1)
      if (status === 'won' && moved.length === 1) move(state, dispute, 1)
      dispute['status'] = status
      tellStripe(state, status === 'needs_response' ? 'charge.dispute.updated' : 'charge.dispute.closed', dispute)
    },
    failRefund(id) {
      Object.assign(state.find(id), { status: 'failed', failure_reason: 'expired_or_canceled_card' })
      tellStripe(state, 'refund.failed', state.find(id))
    },
    make: (prefix, object, body) => state.make(prefix, object, body),
    forgetKeys: () => state.forgetKeys(),
  }
}

/** A balance transaction of a dispute, with Stripe's fee. */
function move(state: StripeState, dispute: StripeObject, sign: 1 | -1): void {
  const amount = sign * Number(dispute['amount'])
  const made = state.make('txn', 'balance_transaction', { amount, currency: 'usd', fee: 1_500, net: amount - 1_500 })
  dispute['balance_transactions'] = [...(dispute['balance_transactions'] as object[]), made]
}

/** Makes a refund as `POST /v1/refunds` does; returns why not as text. */
export function makeRefund(state: StripeState, fields: Fields): StripeObject | string {
  const intent = fields.get('payment_intent') ?? ''
  const paid = state.find(intent)
  if (paid['status'] !== 'succeeded') return 'this payment was not paid'
  const made = state.all('refund').filter((each) => each['payment_intent'] === intent && each['status'] !== 'failed')
  const left = Number(paid['amount']) - made.reduce((sum, each) => sum + Number(each['amount']), 0)
  const amount = Number(fields.get('amount') ?? left)
  if (amount < 1 || amount > left) return 'the amount is more than what is left'
  const metadata = section(fields, 'metadata')
  const body = { payment_intent: intent, amount, currency: 'usd', status: 'succeeded', metadata }
  const refund = state.make('re', 'refund', body)
  tellStripe(state, 'refund.created', refund)
  return refund
}

const LISTS: Readonly<Record<string, string>> = {
  '/v1/refunds': 'refund',
  '/v1/disputes': 'dispute',
  '/v1/checkout/sessions': 'checkout.session',
  '/v1/invoice_payments': 'invoice_payment',
  '/v1/events': 'event',
}

/** A page of a list, the newest first, as Stripe gives it; null where the path is no list. */
export function listObjects(state: StripeState, path: string, fields: Fields): object | null {
  const object = LISTS[path]
  if (object === undefined) return null
  const [from, until] = [fields.get('created[gte]'), fields.get('created[lt]')]
  const intent = fields.get('payment_intent') ?? fields.get('payment[payment_intent]')
  // Stripe refuses the id of another kind of object.
  if (object === 'refund' && intent?.startsWith('pi_') === false) return null
  const all = state
    .all(object)
    .reverse()
    .filter((each) => from === undefined || Number(each['created']) >= Number(from))
    .filter((each) => until === undefined || Number(each['created']) < Number(until))
    .filter((each) => fields.get('invoice') === undefined || each['invoice'] === fields.get('invoice'))
    .filter((each) => object !== 'event' || isOfTypes(each, fields))
    .filter((each) => intent === undefined || intentOf(each) === intent)
  const after = all.findIndex(({ id }) => id === fields.get('starting_after'))
  const limit = Number(fields.get('limit') ?? 10)
  const data = all.slice(after + 1, after + 1 + limit).map((each) => withCustomer(state, each))
  return { object: 'list', url: path, has_more: after + 1 + limit < all.length, data }
}

/** A session of a subscription names no PaymentIntent. */
function intentOf(each: StripeObject): unknown {
  if (each.object === 'invoice_payment') return (each['payment'] as { payment_intent: string }).payment_intent
  return each['mode'] === 'subscription' ? null : each['payment_intent']
}

function withCustomer(state: StripeState, each: StripeObject): object {
  if (each.object !== 'checkout.session') return each
  return { ...each, customer: state.find(String(each['customer'])) }
}
