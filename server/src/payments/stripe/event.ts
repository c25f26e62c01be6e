/** Stripe's events: who sent a callback, and which object an event names. Nothing else is read. */

import type Stripe from 'stripe'
import { z } from 'zod'
import type { Verify } from '../../http/principal.ts'
import { refusal } from '../../lib/errors.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import type { Secret } from '../../lib/secret.ts'
import { type Clock, SECOND_MS } from '../../lib/time.ts'
import type { ListedEvent, ToldKind } from '../provider/reversal.ts'

/** An older callback may be a recording that somebody sends again, and so may one that is dated ahead, for later. */
const TOLERANCE_SECONDS = 300

const NOT_SIGNED = refusal(
  'invalid_request',
  'The signature of this callback is wrong, or its time is more than 300 s away. Check the signing secret of the endpoint at Stripe, and the clock of this server.',
)

/** Returns the check of a callback: signed with the secret of the endpoint, over the bytes as they came, at most 300 s ago or ahead. */
export function verifyStripe(stripe: Stripe, secret: Secret, clock: Clock): Verify {
  const { signature } = stripe.webhooks
  if (signature === null) throw new Error("Stripe's package has no check of signatures")
  return async (headers, bytes) => {
    const header = headers.get('Stripe-Signature') ?? ''
    try {
      const now = clock.now()
      await signature.verifyHeaderAsync(bytes, header, secret.reveal(), TOLERANCE_SECONDS, undefined, now)
    } catch {
      return refused(NOT_SIGNED)
    }
    if (!isRecent(header, clock.now())) return refused(NOT_SIGNED)
    return ok({ kind: 'signed', sender: 'stripe' })
  }
}

/** Returns whether the time in a header is close to now. Stripe's package reads it in the same way, and refuses the past alone. */
function isRecent(header: string, nowMs: number): boolean {
  const times = header.split(',').filter((item) => item.startsWith('t='))
  const atSeconds = Number.parseInt(times.at(-1)?.slice(2) ?? '', 10)
  return Math.abs(Math.floor(nowMs / SECOND_MS) - atSeconds) <= TOLERANCE_SECONDS
}

/** The objects that events are heard about, by Stripe's names of them. */
const KINDS: ReadonlyMap<string, ToldKind> = new Map([
  ['checkout.session', 'checkout'],
  ['subscription', 'subscription'],
  ['refund', 'reversal'],
  ['dispute', 'reversal'],
])

const Event = z.object({
  id: z.string().min(1).max(255),
  type: z.string(),
  data: z.object({ object: z.object({ id: z.string().min(1).max(255), object: z.string() }) }),
})

/** The object that an event names. */
export type NamedObject = Omit<ListedEvent, 'createdAtMs'>

const NOT_JSON = refusal(
  'invalid_request',
  'This callback is signed, but its body is no JSON. Send the event as Stripe makes it.',
)

/** Reads a verified callback; null where it names no object that is heard about. Refused where it is no JSON. */
export function namedObjectFromWire(bytes: Uint8Array): Result<NamedObject | null> {
  let event: unknown
  try {
    event = JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    return refused(NOT_JSON)
  }
  return ok(namedObject(event))
}

/** Returns the object that an event names; null where it names none that is heard about. */
export function namedObject(event: unknown): NamedObject | null {
  const parsed = Event.safeParse(event)
  if (!parsed.success) return null
  const { id, data } = parsed.data
  const kind = KINDS.get(data.object.object)
  return kind === undefined ? null : { event: id, kind, object: data.object.id }
}
