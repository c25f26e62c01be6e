/**
 * The signatures of Stripe's callbacks. Stripe's package checks them too, but it decodes the whole body first, for anybody who sends one.
 * Here a body is looked at only when its header could be right, and is never decoded.
 */

import { isUtf8 } from 'node:buffer'
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Verify } from '../../http/principal.ts'
import { refusal } from '../../lib/errors.ts'
import { ok, refused } from '../../lib/result.ts'
import type { Secret } from '../../lib/secret.ts'
import { type Clock, SECOND_MS } from '../../lib/time.ts'

/** An older callback may be a recording that somebody sends again, and so may one that is dated ahead, for later. */
const TOLERANCE_SECONDS = 300

const NOT_SIGNED = refusal(
  'invalid_request',
  'The signature of this callback is wrong, or its time is more than 300 s away. Check the signing secret of the endpoint at Stripe, and the clock of this server.',
)

const NOT_UTF8 = refusal(
  'invalid_request',
  'The body of this callback is not valid UTF-8. Send the event as Stripe makes it.',
)

/**
 * Returns the check of a callback: signed with the secret of the endpoint, over the bytes as they came, at most 300 s ago or ahead. Throws
 * where the secret is blank, with which anybody could sign.
 */
export function verifyStripe(secret: Secret, clock: Pick<Clock, 'now'>): Verify {
  if (secret.reveal().trim() === '')
    throw new Error(
      'payments: the signing secret is blank. Copy the one of the endpoint at Stripe; it begins with whsec_',
    )
  return (headers, bytes) => {
    const header = signedHeaderFromWire(headers.get('Stripe-Signature') ?? '')
    if (header === null || !isRecent(header, clock.now())) return refused(NOT_SIGNED)
    if (!isUtf8(bytes)) return refused(NOT_UTF8)
    const expected = createHmac('sha256', secret.reveal()).update(`${header.time}.`).update(bytes).digest()
    const isSigned = header.signatures.some((signature) => timingSafeEqual(signature, expected))
    return isSigned ? ok({ kind: 'signed', sender: 'stripe' }) : refused(NOT_SIGNED)
  }
}

interface SignedHeader {
  /** Seconds since the epoch, as they were signed: digits. */
  readonly time: string
  /** One for each secret that is in force while the secret is changed, 32 bytes each. */
  readonly signatures: readonly Buffer[]
}

/** Reads `t=1700000000,v1=…`; other schemes than `v1` are left out. Null: it has not one time, or no signature. */
function signedHeaderFromWire(header: string): SignedHeader | null {
  const items = header.split(',').map((item) => item.trim())
  const times = items.filter((item) => item.startsWith('t='))
  const signatures = items.filter((item) => /^v1=[0-9a-f]{64}$/.test(item))
  const [time = ''] = times
  if (times.length !== 1 || !/^t=\d{1,15}$/.test(time) || signatures.length === 0) return null
  return { time: time.slice(2), signatures: signatures.map((item) => Buffer.from(item.slice(3), 'hex')) }
}

function isRecent({ time }: SignedHeader, nowMs: number): boolean {
  return Math.abs(Math.floor(nowMs / SECOND_MS) - Number(time)) <= TOLERANCE_SECONDS
}
