import type { Queryable } from '../infra/postgres/database.ts'
import { type Refusal, refusal } from '../lib/errors.ts'
import { type Clock, HOUR_MS, secondsUntilOver } from '../lib/time.ts'
import { findFreeEnd } from './store.ts'

interface CancellationDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly cancellationsPerHour: number
}

/**
 * Returns the refusal of a new job for an organization that has cancelled `cancellationsPerHour` jobs in progress within the
 * last hour; null where there were fewer. Each of them was work of a provider that nobody paid for. Cancelling itself is
 * free and never refused, so there may have been more: new jobs wait until fewer than that are an hour old or less. Rejects
 * while the database can't be asked.
 */
export async function refuseAfterCancellations(
  { database, clock, cancellationsPerHour }: CancellationDependencies,
  organizationId: string,
): Promise<Refusal | null> {
  const nowMs = clock.now()
  const cancelledAtMs = await findFreeEnd(
    database,
    'cancellation',
    organizationId,
    cancellationsPerHour,
    nowMs - HOUR_MS,
  )
  if (cancelledAtMs === null) return null
  return refusal(
    'rate_limit_exceeded',
    `Your organization cancelled ${cancellationsPerHour} videos in progress within an hour. ` +
      'Wait for the seconds in Retry-After before you create the next one. Cancelling stays free.',
    { retryAfterSeconds: secondsUntilOver(cancelledAtMs + HOUR_MS, nowMs) },
  )
}
