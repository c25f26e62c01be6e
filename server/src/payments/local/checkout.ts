/** A checkout of the local payment provider, and what a person can do with it. Pure. */

/** The cards that a person may choose: no card of anybody's, and no number is ever typed. */
export const LOCAL_CARDS = {
  succeeds: '4242 4242 4242 4242: the payment succeeds',
  declines: '4000 0000 0000 0002: the card is declined',
  declines_later: '4000 0000 0000 0341: the payment succeeds, later ones by auto-pay are declined',
  authenticates: '4000 0025 0000 3155: the bank asks for authentication',
} as const

export type LocalCard = keyof typeof LOCAL_CARDS

export function isLocalCard(text: string): text is LocalCard {
  return Object.hasOwn(LOCAL_CARDS, text)
}

export interface LocalCheckout {
  /** Tollgate's id of the payment, or of the checkout for a plan. */
  readonly id: string
  readonly createdAtMs: number
  readonly customer: string
  readonly amountCents: number
  readonly description: string
  /** Of a subscription that it begins; null: it is a payment of credit. */
  readonly price: string | null
  readonly successUrl: string
  readonly cancelUrl: string
  /** Milliseconds since the epoch: from then on nobody can pay it. */
  readonly expiresAtMs: number
  /** `authenticating`: the bank has to be told yes. */
  readonly state: 'open' | 'authenticating' | 'paid' | 'expired'
  /** Its payment, or the subscription that it began, once it is paid. */
  readonly payment: string | null
  /** True when the page offers to keep the card for later payments. Left out: it does not. */
  readonly offersSaving?: boolean
  /** True when the customer agreed to keep the card for later payments. */
  readonly savesCard: boolean
  /** The card that was chosen last. */
  readonly card: LocalCard | null
}

/** The choice of a person on the page of a checkout. */
export type LocalChoice =
  | { readonly kind: 'pay'; readonly card: LocalCard; readonly savesCard: boolean }
  | { readonly kind: 'authenticate'; readonly isConfirmed: boolean }

export type LocalProblem = 'declined' | 'refused' | 'ended'

/** Returns a checkout as it is at an instant: one that nobody paid in time has expired. */
export function at(checkout: LocalCheckout, nowMs: number): LocalCheckout {
  const isLate = checkout.state !== 'paid' && nowMs >= checkout.expiresAtMs
  return isLate ? { ...checkout, state: 'expired' } : checkout
}

/** Returns the checkout after a choice, and the problem that the person is shown, if there is one. `payment` names the payment. */
export function choose(
  checkout: LocalCheckout,
  choice: LocalChoice,
  payment: string,
): { readonly checkout: LocalCheckout; readonly problem: LocalProblem | null } {
  const { state } = checkout
  const paid = { ...checkout, state: 'paid', payment } as const
  if (choice.kind === 'authenticate') {
    if (state !== 'authenticating') return { checkout, problem: state === 'paid' ? null : 'ended' }
    return choice.isConfirmed
      ? { checkout: paid, problem: null }
      : { checkout: { ...checkout, state: 'open' }, problem: 'refused' }
  }
  if (state === 'paid') return { checkout, problem: null }
  if (state === 'expired') return { checkout, problem: 'ended' }
  const { card } = choice
  // A form may say more than the page did.
  const savesCard = checkout.offersSaving === true && choice.savesCard
  switch (card) {
    case 'succeeds':
    case 'declines_later':
      return { checkout: { ...paid, card, savesCard }, problem: null }
    case 'declines':
      return { checkout: { ...checkout, state: 'open' }, problem: 'declined' }
    case 'authenticates':
      return { checkout: { ...checkout, state: 'authenticating', card, savesCard }, problem: null }
  }
}
