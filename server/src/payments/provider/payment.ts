/** The nouns of payments: what an organization pays, and what a payment provider says of it. */

import { HOUR_MS, MINUTE_MS } from '../../lib/time.ts'

export type PaymentProviderName = 'local' | 'stripe'

/** The purposes of payments. */
export type PaymentKind = 'top_up' | 'auto_pay'

/** `opening`: its checkout has no address yet. `processing`: paid by the customer, and the money is on its way. */
export type PaymentState = 'opening' | 'open' | 'processing' | 'paid' | 'failed' | 'expired'

/** A payment as its row has it. */
export interface Payment {
  /** A UUIDv7. */
  readonly id: string
  readonly organizationId: string
  readonly provider: PaymentProviderName
  readonly kind: PaymentKind
  /** US cents before tax, more than 0. */
  readonly amountCents: number
  /** US cents of its credit that refunds and disputes took back. */
  readonly reversedCents: number
  readonly state: PaymentState
  /** Why it failed or expired, in our words; null else. */
  readonly reason: string | null
  /** The payment provider's id of the checkout; null while opening. */
  readonly checkout: string | null
  readonly checkoutUrl: string | null
  readonly receiptUrl: string | null
  /** True: a newer checkout was opened, and this one is to be expired. */
  readonly isReplaced: boolean
  readonly createdAtMs: number
  readonly paidAtMs: number | null
}

/** Money that came, as the payment provider has it. */
export interface PaidFacts {
  /** The payment provider's id of the payment. */
  readonly payment: string
  /** US cents before tax. */
  readonly amountCents: number
  /** US cents with tax. */
  readonly grossCents: number
  readonly receiptUrl: string | null
}

/** A checkout as it was retrieved. Nothing else decides what becomes of a payment. */
export type CheckoutFacts =
  | { readonly state: 'open' | 'processing' }
  /** `savedMethod`: the payment method that the person agreed to keep for later payments. */
  | ({ readonly state: 'paid'; readonly savedMethod: string | null } & PaidFacts)
  /** `reason` is in our words. */
  | { readonly state: 'failed' | 'expired'; readonly reason: string }

/** Returns whether more can become of a payment: it is looked at again. */
export function isPending(state: PaymentState): boolean {
  return state === 'opening' || state === 'open' || state === 'processing'
}

const FIRST_LOOK_MS = MINUTE_MS
const LAST_LOOK_MS = HOUR_MS

/** Longer than a payment provider may take to open a checkout. */
export const OPENING_MS = 5 * MINUTE_MS

/**
 * Returns when a payment that is still pending is to be retrieved again: after a minute, then when its age has doubled, at most
 * an hour apart. Callbacks come sooner; this is for those that never come.
 */
export function nextLookMs(createdAtMs: number, nowMs: number): number {
  return nowMs + Math.min(Math.max(nowMs - createdAtMs, FIRST_LOOK_MS), LAST_LOOK_MS)
}
