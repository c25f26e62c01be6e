/** Stripe's signed callbacks: who sent one, and which object it names. Nothing else of it is read. */

import type Stripe from 'stripe'
import { z } from 'zod'
import type { Verify } from '../../http/principal.ts'
import { refusal } from '../../lib/errors.ts'
import { ok, refused } from '../../lib/result.ts'
import type { Secret } from '../../lib/secret.ts'
import type { Clock } from '../../lib/time.ts'

/** An older callback may be a recording that somebody sends again. */
const TOLERANCE_SECONDS = 300

const NOT_SIGNED = refusal(
  'invalid_request',
  'The signature of this callback is wrong or older than 300 s. Check the signing secret of the endpoint at Stripe.',
)

/** Returns the check of a callback: signed with the secret of the endpoint, over the bytes as they came, at most 300 s ago. */
export function verifyStripe(stripe: Stripe, secret: Secret, clock: Clock): Verify {
  return async (headers, bytes) => {
    const header = headers.get('Stripe-Signature') ?? ''
    try {
      const now = clock.now()
      await stripe.webhooks.constructEventAsync(bytes, header, secret.reveal(), TOLERANCE_SECONDS, undefined, now)
    } catch {
      return refused(NOT_SIGNED)
    }
    return ok({ kind: 'signed', sender: 'stripe' })
  }
}

const Event = z.object({
  id: z.string().min(1).max(255),
  type: z.string(),
  data: z.object({ object: z.object({ id: z.string().min(1).max(255), object: z.string() }) }),
})

/** The object that a callback names. */
export interface NamedObject {
  /** Stripe's id of the callback. */
  readonly event: string
  /** Such as `checkout.session`. */
  readonly object: string
  readonly id: string
}

/** Reads a verified callback; null where it names no object. */
export function namedObjectFromWire(bytes: Uint8Array): NamedObject | null {
  const parsed = Event.safeParse(JSON.parse(new TextDecoder().decode(bytes)))
  if (!parsed.success) return null
  const { id: event, data } = parsed.data
  return { event, object: data.object.object, id: data.object.id }
}
