import type { Database, Transaction } from '../../infra/postgres/database.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'
import { type Clock, MINUTE_MS, secondsUntil } from '../../lib/time.ts'
import { countSend, isPendingFull, readSends } from './store.ts'

/** Bounds on the sends that an organization asks for, and pays nothing for. */
export interface SendLimits {
  /** Tests and redeliveries together. */
  readonly testsPerMinute: number
  readonly pendingMost: number
}

export interface SendDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly limits: SendLimits
  /** Returns the refusal of organizations that are neither funded nor entitled; null for others. */
  readonly refuseUnfunded: (organizationId: string) => Promise<Refusal | null>
}

/** A delivery takes 30 s at least to its second attempt; sooner few places are free. */
const FULL_RETRY_SECONDS = 30

/**
 * Returns the refusal of a test or redelivery: first by the limits of its organization (429), then where nobody pays (402);
 * null where it may be made. Reads only, so that refused requests lock and write nothing. `addsPending`: a delivery becomes
 * pending by it, and is not pending already.
 */
export async function refuseToSend(
  { database, clock, limits, refuseUnfunded }: SendDependencies,
  organizationId: string,
  addsPending: boolean,
): Promise<Refusal | null> {
  const nowMs = clock.now()
  const nthLastMs = await readSends(database, organizationId, limits.testsPerMinute)
  if (nthLastMs !== null && nthLastMs > nowMs - MINUTE_MS) return tooManySends(limits, nthLastMs, nowMs)
  if (addsPending && (await isPendingFull(database, organizationId, limits.pendingMost))) {
    return refusal(
      'rate_limited',
      `Your organization has ${limits.pendingMost} pending deliveries, which is the most. Wait until some have ended, or ` +
        'delete the webhook endpoint that does not answer.',
      { retryAfterSeconds: FULL_RETRY_SECONDS },
    )
  }
  return await refuseUnfunded(organizationId)
}

/** Counts a test or redelivery that is made; returns the refusal where others at the same time have used up the minute. */
export async function takeSend(
  tx: Transaction,
  { clock, limits }: Pick<SendDependencies, 'clock' | 'limits'>,
  organizationId: string,
): Promise<Refusal | null> {
  const nowMs = clock.now()
  if (await countSend(tx, organizationId, nowMs, limits.testsPerMinute)) return null
  return tooManySends(limits, (await readSends(tx, organizationId, limits.testsPerMinute)) ?? nowMs, nowMs)
}

function tooManySends({ testsPerMinute }: SendLimits, nthLastMs: number, nowMs: number): Refusal {
  return refusal(
    'rate_limited',
    `Your organization asked for ${testsPerMinute} webhook tests and redeliveries within a minute, which is the most. ` +
      'Wait for the seconds in Retry-After.',
    { retryAfterSeconds: secondsUntil(nthLastMs + MINUTE_MS, nowMs) },
  )
}
