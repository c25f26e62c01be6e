import type { Handle } from '../../http/pipeline.ts'
import type { SignedPrincipal } from '../../http/principal.ts'
import { refusal } from '../../lib/errors.ts'
import type { Hearing } from '../reconcile/hearing.ts'
import { namedObjectFromWire } from './event.ts'

const AGAIN = refusal('payment-source-unavailable', 'This object is being retrieved; send the callback again.', {
  retryAfterSeconds: 5,
})

/**
 * POST /payments/stripe/events. It answers 2xx only when the object that the callback names is applied, is none of ours, or is not at Stripe
 * any more; a 5xx makes Stripe send it again.
 */
export function postStripeEvent(hear: Hearing): Handle<SignedPrincipal> {
  return async ({ bytes }) => {
    const read = namedObjectFromWire(bytes)
    if (!read.ok) return read.refusal
    const named = read.value
    if (named !== null && (await hear[named.kind](named.object, named.event)) === 'superseded') return AGAIN
    return Response.json({ received: true })
  }
}
