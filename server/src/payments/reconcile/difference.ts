/** The noun of a difference between the payment provider and what is here. */

/**
 * `payment`, `subscription`, `reversal`: the payment provider had it and it was not here, or another state of it. `amount`: a payment has
 * another amount there. `payment_not_there`, `reversal_not_there`: the payment provider does not list it. `ledger`: the ledger has another
 * sum for a payment. `unreadable`: the payment provider lists it, and it can't be read or applied now.
 */
export type DifferenceKind =
  | 'payment'
  | 'subscription'
  | 'reversal'
  | 'amount'
  | 'payment_not_there'
  | 'reversal_not_there'
  | 'ledger'
  | 'unreadable'

export interface PaymentDifference {
  readonly kind: DifferenceKind
  /** The payment provider's id of the checkout, subscription, refund or dispute; of `ledger`, our id of the payment. */
  readonly object: string
  /** Null where it is not told. */
  readonly organizationId: string | null
  /** US cents; null where it is not told. */
  readonly amountCents: number | null
  /** True when it was posted now, so that it differs no more. Else somebody has to look. */
  readonly isMended: boolean
  /** Of the kind `unreadable`. The last reconciled instant stays before `createdAtMs`, so that it is tried again. */
  readonly unreadable?: { readonly why: string; readonly createdAtMs: number }
}
