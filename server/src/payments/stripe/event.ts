/** Stripe's events: which object an event names. Nothing else is read. */

import { z } from 'zod'
import { refusal } from '../../lib/errors.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import type { ListedEvent, ToldKind } from '../provider/reversal.ts'

/** The objects that events are heard about, by Stripe's names of them. */
const KINDS: ReadonlyMap<string, ToldKind> = new Map([
  ['checkout.session', 'checkout'],
  ['subscription', 'subscription'],
  ['refund', 'reversal'],
  ['dispute', 'reversal'],
])

/** Stripe's ids are of ASCII. A character such as U+0000 would be an error of the database. */
const Id = z.string().regex(/^[\x21-\x7e]{1,255}$/)

const Event = z.object({
  id: Id,
  type: z.string(),
  data: z.object({ object: z.object({ id: Id, object: z.string() }) }),
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
