/** Stripe's PaymentIntents as facts of payments that nobody is present at. Pure. */

import type Stripe from 'stripe'
import type { AutoPaymentFacts } from '../provider/autoPayment.ts'

const REASONS: Readonly<Record<string, string>> = {
  expired_card: 'The saved card has expired.',
  insufficient_funds: 'The saved card was declined: there is not enough money.',
}

/** The facts of a payment whose bank asks for the person. */
export const AUTHENTICATION = {
  state: 'authentication',
  reason: 'The bank asks the person who has the card to confirm the payment.',
} as const

/** With these codes a bank asks for the person. An invoice has a code of its own, with errors of more than one class. */
const ASKING: ReadonlySet<string | undefined> = new Set([
  'authentication_required',
  'invoice_payment_intent_requires_action',
])

/** Returns whether the code of an error says that the bank asks for the person who has the card. */
export function asksForPerson(code: string | undefined): boolean {
  return ASKING.has(code)
}

/** Returns why a payment was not made, in our words. Codes that are not known are a declined card. */
export function declinedFor({
  code,
  decline_code: decline,
}: {
  readonly code?: string | undefined
  readonly decline_code?: string | undefined
}): Extract<AutoPaymentFacts, { state: 'declined' | 'authentication' }> {
  if (asksForPerson(code) || asksForPerson(decline)) return AUTHENTICATION
  const reason = REASONS[decline ?? ''] ?? REASONS[code ?? ''] ?? 'The saved payment method was declined.'
  return { state: 'declined', reason }
}

/**
 * Returns the facts of a PaymentIntent with its latest charge expanded. `amountCents` is its amount before tax. Nobody but us can
 * confirm one of ours, and that happens once: one that waits for a payment method stays so.
 */
export function intentFactsFromWire(intent: Stripe.PaymentIntent, amountCents: number): AutoPaymentFacts {
  const { id, amount: grossCents, status, latest_charge: charge, last_payment_error: failure } = intent
  switch (status) {
    case 'succeeded': {
      const receiptUrl = typeof charge === 'object' ? (charge?.receipt_url ?? null) : null
      return { state: 'paid', payment: id, amountCents, grossCents, receiptUrl }
    }
    case 'requires_payment_method':
    case 'canceled':
      return declinedFor({ code: failure?.code, decline_code: failure?.decline_code })
    case 'requires_action':
      return AUTHENTICATION
    default:
      return { state: 'processing' }
  }
}
