/** The nouns of the payment provider in memory. */

export interface SimulatedCheckout {
  readonly id: string
  /** Our id of it. */
  readonly key: string
  readonly createdAtMs: number
  readonly customer: string
  readonly kind: 'credit' | 'subscription'
  /** Without tax. */
  amountCents: number
  /** Of a subscription. */
  readonly price: string | null
  readonly expiresAtMs: number
  state: 'open' | 'processing' | 'paid' | 'failed' | 'expired'
  payment: string | null
  subscription: string | null
  /** The payment method with which it is paid is kept. */
  readonly savesMethod: boolean
}

/** Money that came. */
export interface SimulatedPayment {
  readonly id: string
  readonly customer: string
  readonly kind: 'credit' | 'subscription'
  readonly amountCents: number
  /** With tax. */
  readonly grossCents: number
  /** The checkout, the subscription or the payment by auto-pay that it paid for. */
  readonly object: string
}

export interface SimulatedSubscription {
  readonly id: string
  readonly customer: string
  readonly createdAtMs: number
  price: string
  status: 'active' | 'past_due' | 'canceled'
  periodStartMs: number
  periodEndMs: number
  cancelAtPeriodEnd: boolean
  /** The bank refuses the next renewal. */
  failsNext: boolean
  lastPayment: string
  /** It entitled to nothing once, being past due or at a price of no plan: it may be the one too many although it is older. */
  wasWithoutEffect: boolean
  /** It was cancelled because there was another one. */
  isSurplus: boolean
}
