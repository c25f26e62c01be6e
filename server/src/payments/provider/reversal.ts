/** The nouns of refunds and disputes: money of a payment that goes back, and what a payment provider says of it. Pure. */

import { DAY_MS, HOUR_MS } from '../../lib/time.ts'

/**
 * `pending`, `succeeded`, `failed`: of a refund. `inquiry`, `open`, `won`, `lost`: of a dispute; an inquiry asks only, and moves nothing.
 */
export type ReversalState = 'pending' | 'succeeded' | 'failed' | 'inquiry' | 'open' | 'won' | 'lost'

/** The kinds of ledger entries that a reversal is posted as. */
export type MovementKind = 'payment_refund' | 'payment_dispute'

/** Money that a reversal moved. */
export interface Movement {
  /** The payment provider's id of the movement; it ends with `:failed` where a refund failed and the money came back. */
  readonly id: string
  readonly kind: MovementKind
  /** US cents with tax, not 0. Below 0: taken from the operator. */
  readonly amountCents: number
}

/** A refund or a dispute as it was retrieved. Nothing else decides what is posted of it. */
export interface ReversalFacts {
  /** The payment provider's id of it, and of the payment. */
  readonly reversal: string
  readonly payment: string
  readonly state: ReversalState
  /** All that it has moved so far, oldest first. */
  readonly movements: readonly Movement[]
  /** A currency that it has moved money of which is no US dollars, such as `eur`: that is in no movement. Null: there is none. */
  readonly foreignCurrency: string | null
  readonly createdAtMs: number
  /** The id of the operator's request that made it; null where it was made at the payment provider. */
  readonly request: string | null
}

/** A refund that is to be made. */
export interface NewRefund {
  /** The payment provider's id of the payment. */
  readonly payment: string
  /** US cents, with tax. */
  readonly amountCents: number
  /** The same id makes the same refund, however often it is asked for. */
  readonly request: string
}

/** A checkout in a list of the payment provider's. */
export interface ListedCheckout {
  readonly checkout: string
  readonly state: 'open' | 'expired' | 'complete'
  /** The subscription that it began; null: it is a payment of credit, or began none yet. */
  readonly subscription: string | null
  readonly isSubscription: boolean
  /** Our id of it, and of the organization of its customer, as the payment provider keeps them; null where it has none. */
  readonly id: string | null
  readonly organizationId: string | null
  readonly customer: string
  /** US cents, without tax. */
  readonly amountCents: number
  readonly createdAtMs: number
}

/** A refund or a dispute in a list of the payment provider's. */
export interface ListedReversal {
  readonly reversal: string
  readonly state: ReversalState
  readonly createdAtMs: number
}

/** The kinds of object that events are about. `reversal`: a refund or a dispute. */
export type ToldKind = 'checkout' | 'subscription' | 'reversal'

/** An event in the payment provider's list: it told of a change by a callback, or would have. */
export interface ListedEvent {
  /** The payment provider's id of it, which its callback has too. */
  readonly event: string
  readonly kind: ToldKind
  /** The payment provider's id of the object that has changed. */
  readonly object: string
  readonly createdAtMs: number
}

/** From `fromMs` up to, and without, `untilMs`. */
export interface ProviderWindow {
  readonly fromMs: number
  readonly untilMs: number
}

/** The object that a payment at the payment provider pays for. `other`: it has an id of ours, and is of no checkout. */
export type PaymentOwner =
  | { readonly kind: 'other'; readonly customer: string }
  | { readonly kind: 'checkout'; readonly checkout: ListedCheckout }
  | { readonly kind: 'subscription'; readonly subscription: string; readonly customer: string }

/**
 * Returns how much of a payment's credit is taken back once `takenCents` of it, with tax, were: the same part, rounded to a cent. Never
 * less than nothing, nor more than the credit: a payment may be refunded and disputed at once.
 */
export function reversedCredit(
  { amountCents, grossCents }: { readonly amountCents: number; readonly grossCents: number },
  takenCents: number,
): number {
  if (takenCents <= 0) return 0
  if (takenCents >= grossCents) return amountCents
  return roundedShare(takenCents, amountCents, grossCents)
}

/** Returns how much has to be taken with tax, for so much of the credit to be taken back. */
export function grossOfCredit(
  { amountCents, grossCents }: { readonly amountCents: number; readonly grossCents: number },
  creditCents: number,
): number {
  return creditCents >= amountCents ? grossCents : roundedShare(creditCents, grossCents, amountCents)
}

/** `part` of `whole`, as a part of `of`, rounded to the nearest cent. */
function roundedShare(part: number, of: number, whole: number): number {
  const [product, divisor] = [BigInt(part) * BigInt(of), BigInt(whole)]
  return Number((2n * product + divisor) / (2n * divisor))
}

/** Returns whether money of a dispute is with the customer's bank: while it is, the organization is frozen (B11). */
export function isAgainstOperator(state: ReversalState | null): boolean {
  return state === 'open' || state === 'lost'
}

/**
 * A reversal that has ended may still change: a refund fails days later, and a dispute that was won gives its money
 * back.
 */
const ENDED_WATCHED_MS = 30 * DAY_MS

/** Returns when a reversal is to be retrieved again although nobody tells of it; null: never. */
export function nextReversalLookMs(state: ReversalState, changedAtMs: number, nowMs: number): number | null {
  const isOver = state === 'succeeded' || state === 'failed' || state === 'won' || state === 'lost'
  if (!isOver) return nowMs + HOUR_MS
  return nowMs - changedAtMs < ENDED_WATCHED_MS ? nowMs + DAY_MS : null
}
