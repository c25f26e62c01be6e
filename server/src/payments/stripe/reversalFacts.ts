/** Stripe's refunds and disputes as facts. Pure. */

import type Stripe from 'stripe'
import type { Movement, ReversalFacts, ReversalState } from '../provider/reversal.ts'
import { CURRENCY } from './facts.ts'

/**
 * Returns the facts of a Refund; null where it is of no PaymentIntent. The money of one that waits is gone already; one that failed or was
 * cancelled came back.
 */
export function refundFactsFromWire(refund: Stripe.Refund): ReversalFacts | null {
  const payment = paymentOf(refund)
  if (payment === null) return null
  const state = refundStateFromWire(refund)
  const { id, amount } = refund
  const taken: Movement = { id, kind: 'payment_refund', amountCents: -amount }
  const back: Movement = { id: `${id}:failed`, kind: 'payment_refund', amountCents: amount }
  return {
    reversal: id,
    payment,
    state,
    movements: state === 'failed' ? [taken, back] : [taken],
    foreignCurrency: null,
    createdAtMs: refund.created * 1_000,
    request: refund.metadata?.['tollgate_refund'] ?? null,
  }
}

export function refundStateFromWire({ status }: Stripe.Refund): 'pending' | 'succeeded' | 'failed' {
  if (status === 'failed' || status === 'canceled') return 'failed'
  return status === 'succeeded' ? 'succeeded' : 'pending'
}

/**
 * Returns the facts of a Dispute; null where it is of no PaymentIntent. Its movements are Stripe's balance transactions, without fees: an
 * inquiry has none. Those in another currency than US dollars, in which every account of ours settles, are left out: a
 * dispute may be of other business of the operator's.
 */
export function disputeFactsFromWire(dispute: Stripe.Dispute): ReversalFacts | null {
  const payment = paymentOf(dispute)
  if (payment === null) return null
  const moved = dispute.balance_transactions.toSorted((a, b) => a.created - b.created)
  const foreign = moved.find(({ currency }) => currency !== CURRENCY)
  return {
    reversal: dispute.id,
    payment,
    state: disputeStateFromWire(dispute),
    movements: moved
      .filter(({ amount, currency }) => amount !== 0 && currency === CURRENCY)
      .map(({ id, amount }) => ({ id, kind: 'payment_dispute', amountCents: amount })),
    foreignCurrency: foreign?.currency ?? null,
    createdAtMs: dispute.created * 1_000,
    request: null,
  }
}

/** `prevented`: Stripe has refunded the payment before the bank took the money. */
const DISPUTE_STATES: Readonly<Record<string, ReversalState>> = {
  warning_needs_response: 'inquiry',
  warning_under_review: 'inquiry',
  warning_closed: 'won',
  prevented: 'won',
  won: 'won',
  lost: 'lost',
}

export function disputeStateFromWire({ status }: Stripe.Dispute): ReversalState {
  return DISPUTE_STATES[status] ?? 'open'
}

function paymentOf({ payment_intent: intent }: Stripe.Refund | Stripe.Dispute): string | null {
  if (intent === null) return null
  return typeof intent === 'string' ? intent : intent.id
}
