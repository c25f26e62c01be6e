import type { Queryable } from '../infra/postgres/database.ts'
import { type Refusal, refusal } from '../lib/errors.ts'
import { type Clock, HOUR_MS, secondsUntilOver } from '../lib/time.ts'
import { findFreeEnd } from './store.ts'

interface FreeEndDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly cancellationsPerHour: number
  readonly failuresPerHour: number
}

/**
 * Returns the refusal of a new job for an organization of which too many jobs ended within the last hour without a charge; null where
 * fewer did. `cancellationsPerHour` were cancelled in progress: each was work of a provider that nobody paid for. `failuresPerHour` failed:
 * each leaves an event, and a delivery for each endpoint, that stay for 30 days. Jobs that were accepted before may still end so, and
 * cancelling is never refused: there may have been more, and new jobs wait until fewer than that are an hour old or less. Rejects
 * while the database can't be asked.
 */
export async function refuseAfterFreeEnds(
  { database, clock, cancellationsPerHour, failuresPerHour }: FreeEndDependencies,
  organizationId: string,
): Promise<Refusal | null> {
  const nowMs = clock.now()
  const waitAfter = async (kind: 'cancellation' | 'failure', perHour: number): Promise<number | null> => {
    const endedAtMs = await findFreeEnd(database, kind, organizationId, perHour, nowMs - HOUR_MS)
    return endedAtMs === null ? null : secondsUntilOver(endedAtMs + HOUR_MS, nowMs)
  }
  const afterCancellations = await waitAfter('cancellation', cancellationsPerHour)
  if (afterCancellations !== null) {
    return refusal(
      'rate_limit_exceeded',
      `Your organization cancelled ${cancellationsPerHour} videos in progress within an hour. ` +
        'Wait for the seconds in Retry-After before you create the next one. Cancelling stays free.',
      { retryAfterSeconds: afterCancellations },
    )
  }
  const afterFailures = await waitAfter('failure', failuresPerHour)
  if (afterFailures === null) return null
  return refusal(
    'rate_limit_exceeded',
    `Of your organization, ${failuresPerHour} videos failed within an hour; they cost nothing. ` +
      'Look at why they failed, and wait for the seconds in Retry-After before you create the next one.',
    { retryAfterSeconds: afterFailures },
  )
}
