/** The queries on machines that nobody pays for. */

import type { Queryable } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'

/**
 * When the `nth` latest of an organization's instances was deleted that it deleted within ten seconds of their creation, in milliseconds since
 * the epoch; null where fewer were since `sinceMs`. Reads `nth` entries of an index of those alone, at most.
 */
export async function findShortLife(
  db: Queryable,
  organizationId: string,
  nth: number,
  sinceMs: number,
): Promise<number | null> {
  const rows = await db.query<{ at: Date }>(
    `select ended_at as at from instances
     where organization_id = $1::uuid and reason = 'deleted' and ended_at - created_at < interval '10 seconds'
       and ended_at >= $2::timestamptz
     order by ended_at desc limit 1 offset $3::integer`,
    [organizationId, toTimestamp(sinceMs), nth - 1],
  )
  return rows[0]?.at.getTime() ?? null
}

/** Returns how many instances live, of all organizations. */
export async function countLive(db: Queryable): Promise<number> {
  const rows = await db.query<{ live: bigint }>(
    "select count(*) as live from instances where state in ('creating', 'running')",
  )
  return Number(rows[0]?.live ?? 0n)
}
