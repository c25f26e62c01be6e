/** A payment of the local payment provider, its refunds and its disputes. Pure. */

import type { Movement, ReversalFacts } from '../provider/reversal.ts'
import type { LocalCard } from './checkout.ts'

/** A payment of credit that was made. */
export interface LocalPayment {
  readonly customer: string
  /** US cents. There is no tax in test mode. */
  readonly amountCents: number
  readonly description: string
  /** The checkout where it was paid. */
  readonly checkout: string
  readonly paidAtMs: number
}

/** A payment by a saved card. Its card decides whether it is paid. */
export interface LocalAutoPayment {
  readonly paymentId: string
  readonly customer: string
  readonly card: LocalCard
  readonly amountCents: number
  readonly createdAtMs: number
}

/** The first letters of the ids of payments by checkouts and by saved cards. */
export const LOCAL_PAYMENT = 'lpy_'
export const LOCAL_AUTO_PAYMENT = 'lap_'

/** A payment that was made, at a checkout or by a saved card, as its refunds and disputes need it. */
export type LocalPaid = Pick<LocalPayment, 'customer' | 'amountCents'>

/** Returns whether a payment by a saved card is paid. */
export function isPaidByCard({ card }: LocalAutoPayment): boolean {
  return card === 'succeeds'
}

/** The data of the page of a receipt. */
export type LocalReceipt = Pick<LocalPayment, 'amountCents' | 'description' | 'paidAtMs'>

/** Returns the receipt of a payment by a saved card; null where it was not paid. */
export function receiptOfAutoPayment(payment: LocalAutoPayment): LocalReceipt | null {
  if (!isPaidByCard(payment)) return null
  const { amountCents, createdAtMs: paidAtMs } = payment
  return { amountCents, description: 'Credit, paid by auto-pay', paidAtMs }
}

export interface LocalRefund {
  readonly customer: string
  readonly payment: string
  readonly amountCents: number
  readonly state: 'succeeded' | 'failed'
  /** The id of the operator's request; null: made by `payments simulate`. */
  readonly request: string | null
  readonly createdAtMs: number
}

export interface LocalDispute {
  readonly customer: string
  readonly payment: string
  readonly amountCents: number
  readonly state: 'inquiry' | 'open' | 'won' | 'lost'
  readonly createdAtMs: number
}

/** Returns how much of a payment may still be refunded, in US cents. */
export function refundableCents({ amountCents }: LocalPaid, refunds: readonly LocalRefund[]): number {
  const refunded = refunds.filter(({ state }) => state !== 'failed').reduce((sum, each) => sum + each.amountCents, 0)
  return amountCents - refunded
}

/** Returns the facts of a refund. */
export function factsOfRefund(reversal: string, refund: LocalRefund): ReversalFacts {
  const { payment, state, amountCents, request, createdAtMs } = refund
  const taken: Movement = { id: reversal, kind: 'payment_refund', amountCents: -amountCents }
  const back: Movement = { id: `${reversal}:failed`, kind: 'payment_refund', amountCents }
  const movements = state === 'failed' ? [taken, back] : [taken]
  return { reversal, payment, state, movements, foreignCurrency: null, createdAtMs, request }
}

/** Returns the facts of a dispute. An inquiry has moved nothing; one that was won has given the money back. */
export function factsOfDispute(reversal: string, dispute: LocalDispute): ReversalFacts {
  const { payment, state, amountCents, createdAtMs } = dispute
  const taken: Movement = { id: `${reversal}_out`, kind: 'payment_dispute', amountCents: -amountCents }
  const back: Movement = { id: `${reversal}_in`, kind: 'payment_dispute', amountCents }
  const movements = { inquiry: [], open: [taken], lost: [taken], won: [taken, back] }[state]
  return { reversal, payment, state, movements, foreignCurrency: null, createdAtMs, request: null }
}

/** The events that a person may cause to a payment at the local payment provider. */
export const LOCAL_HAPPENINGS = ['refund', 'refund-fails', 'inquiry', 'dispute', 'won', 'lost'] as const

export type LocalHappening = (typeof LOCAL_HAPPENINGS)[number]

export function isLocalHappening(text: string): text is LocalHappening {
  return LOCAL_HAPPENINGS.some((each) => each === text)
}
