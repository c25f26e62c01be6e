/** The nouns of payments that nobody is present at: made by a payment method that the customer has saved. */

import type { PaidFacts, PaymentKind } from './payment.ts'
import type { ProviderWindow } from './reversal.ts'
import type { UnreadableObject } from './unreadable.ts'

/** A payment that is to be made by a saved payment method. */
export interface NewAutoPayment {
  /** Names the payment. The same id is paid once, however often it is asked for. */
  readonly paymentId: string
  /** The payment provider's ids of the customer and of the saved payment method. */
  readonly customer: string
  readonly method: string
  /** US cents, before tax. */
  readonly amountCents: number
  /** One line for the statement of the person who has the card. */
  readonly description: string
  /** When the payment was begun, in milliseconds since the epoch: it was not asked for before. */
  readonly createdAtMs: number
}

/** The state of a payment, as the payment provider has it. Reasons are in our words. */
export type AutoPaymentFacts =
  | { readonly state: 'processing' }
  | ({ readonly state: 'paid' } & PaidFacts)
  /** `authentication`: the bank wants the person who has the card to confirm the payment. Both states are final. */
  | { readonly state: 'declined' | 'authentication'; readonly reason: string }
  /** It was ended before anybody paid it, and no payment method has declined it. Final too. */
  | { readonly state: 'given_up'; readonly reason: string }

/** The facts of a payment that was given up. */
export const GIVEN_UP = {
  state: 'given_up',
  reason: 'Auto-pay was switched off before the payment was made.',
} as const

/** A payment of ours in the payment provider's own list. */
export interface ListedPayment {
  /** The id that we gave it. */
  readonly paymentId: string
  readonly kind: PaymentKind
  /** The payment provider's id of its customer. */
  readonly customer: string
  /** US cents, before tax. */
  readonly amountCents: number
  readonly createdAtMs: number
  /** `begun`: it is not asked for whole; asking again goes on with it. */
  readonly facts: AutoPaymentFacts | { readonly state: 'begun' }
}

/** A payment of ours in the payment provider's own list of which the rest can't be read now. */
export interface UnreadablePayment extends Pick<ListedPayment, 'paymentId' | 'createdAtMs'> {
  readonly failure: UnreadableObject
}

/** The part of a payment provider that makes payments by saved payment methods. `PaymentProvider` says how methods fail. */
export interface OffSessionProvider {
  /** Makes a payment method the one that later payments of a customer are made by. False: it can't be used for them. */
  saveMethod(customer: string, method: string): Promise<boolean>
  /** Returns the saved payment method of a customer; null where there is none. */
  savedMethod(customer: string): Promise<string | null>
  /** Asks for a payment. Asked again with the same id it is the same payment. */
  payOffSession(wanted: NewAutoPayment): Promise<AutoPaymentFacts>
  /**
   * Ends a payment that the list has as `begun`, so that nobody can pay it later. Returns what became of it: `given_up`, or the state that it
   * has reached meanwhile. Where it can't be ended now, it throws `Refused`.
   */
  giveUp(begun: Pick<ListedPayment, 'paymentId' | 'customer' | 'createdAtMs'>): Promise<AutoPaymentFacts>
  /** Returns the payments of credit of a customer that were begun since an instant. It is complete, and up to date. */
  listPayments(customer: string, sinceMs: number): Promise<readonly ListedPayment[]>
  /** Lists the payments by auto-pay of all customers that were begun within a window. */
  listAutoPayments(window: ProviderWindow): AsyncIterable<ListedPayment | UnreadablePayment>
}
