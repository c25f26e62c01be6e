import type { Queryable } from '../../infra/postgres/database.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'
import { HOUR_MS, secondsUntilOver } from '../../lib/time.ts'
import { findShortLife } from './store.ts'

/** Instances of an organization that it may have deleted within ten seconds of their creation, in an hour. */
const SHORT_LIVES_MOST = 60

/**
 * Returns the refusal of a new instance for an organization that has deleted so many within ten seconds of their creation, in the last
 * hour: each was work of the driver, for which next to nothing was paid. Deleting is never refused, so there may have been more: new
 * ones wait until fewer of them are an hour old or less. Null: it may have one.
 */
export async function refuseAfterShortLives(
  database: Queryable,
  organizationId: string,
  nowMs: number,
): Promise<Refusal | null> {
  const endedAtMs = await findShortLife(database, organizationId, SHORT_LIVES_MOST, nowMs - HOUR_MS)
  if (endedAtMs === null) return null
  return refusal(
    'rate_limited',
    `Your organization deleted ${SHORT_LIVES_MOST} instances within ten seconds of their creation in an hour. ` +
      'Wait for the seconds in Retry-After before you create the next one.',
    { retryAfterSeconds: secondsUntilOver(endedAtMs + HOUR_MS, nowMs) },
  )
}
