import type { Queryable } from '../infra/postgres/database.ts'
import { type Refusal, refusal } from '../lib/errors.ts'
import { type Clock, HOUR_MS, secondsUntilOver } from '../lib/time.ts'
import { findFreeEnd } from './store.ts'

interface FailureDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly failuresPerHour: number
}

/**
 * Returns the refusal of a new job for an organization of which `failuresPerHour` jobs failed within the last hour; null
 * where fewer did. A failed job costs nothing, and leaves an event and a delivery for each endpoint that stay for 30 days.
 * Jobs that were accepted before may still fail: new ones wait until fewer than that are an hour old or less. Rejects
 * while the database can't be asked.
 */
export async function refuseAfterFailures(
  { database, clock, failuresPerHour }: FailureDependencies,
  organizationId: string,
): Promise<Refusal | null> {
  const nowMs = clock.now()
  const failedAtMs = await findFreeEnd(database, 'failure', organizationId, failuresPerHour, nowMs - HOUR_MS)
  if (failedAtMs === null) return null
  return refusal(
    'rate_limit_exceeded',
    `Of your organization, ${failuresPerHour} videos failed within an hour; they cost nothing. ` +
      'Look at why they failed, and wait for the seconds in Retry-After before you create the next one.',
    { retryAfterSeconds: secondsUntilOver(failedAtMs + HOUR_MS, nowMs) },
  )
}
