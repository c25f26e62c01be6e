import type { Handle } from '../../http/pipeline.ts'
import type { SignedPrincipal } from '../../http/principal.ts'
import { refusal } from '../../lib/errors.ts'
import type { Refreshed } from '../topUps/refresh.ts'
import { namedObjectFromWire } from './event.ts'

export interface StripeCallbackDependencies {
  /** Retrieves a checkout and applies it, once for each callback. */
  readonly onCheckout: (checkout: string, event: string) => Promise<Refreshed>
  /** The same of a subscription. */
  readonly onSubscription: (subscription: string, event: string) => Promise<Refreshed>
  /** The same of a refund or a dispute. */
  readonly onReversal: (reversal: string, event: string) => Promise<Refreshed>
}

const AGAIN = refusal('payment-source-unavailable', 'This object is being retrieved; send the callback again.', {
  retryAfterSeconds: 5,
})

/**
 * POST /payments/stripe/events. It answers 2xx only when what the callback is about is applied, or is none of ours; a 5xx makes
 * Stripe send it again.
 */
export function postStripeEvent(dependencies: StripeCallbackDependencies): Handle<SignedPrincipal> {
  const { onCheckout, onSubscription, onReversal } = dependencies
  const hear = { checkout: onCheckout, subscription: onSubscription, reversal: onReversal }
  return async ({ bytes }) => {
    const named = namedObjectFromWire(bytes)
    if (named !== null && (await hear[named.kind](named.object, named.event)) === 'superseded') return AGAIN
    return Response.json({ received: true })
  }
}
