/** The queries on rollups and charges that `GET /usage` is answered from. They only read. */

import type { Queryable } from '../io/postgres/database.ts'
import { toTimestamp } from '../kernel/time.ts'
import type { Bucket, BucketSum, Span } from './bucket.ts'

export interface Usage {
  /** The running total of the organization at the start of the span, in micro-cents. */
  readonly beforeMicrocents: bigint
  /** Buckets with at least one charge, oldest first. */
  readonly sums: readonly BucketSum[]
}

/** More than the hours that the edges of a span by days hold, so that a limit on buckets cuts none of them. */
const EDGE_HOURS = 48

/**
 * Reads the running total before a span, and the sums of its first `bucketsMost` buckets that are not empty: in one
 * statement, so that a charge which is posted meanwhile is in all of it or in nothing.
 */
export async function readUsage(
  db: Queryable,
  organizationId: string,
  bucket: Bucket,
  span: Span,
  bucketsMost: number,
): Promise<Usage> {
  const rows = await db.query<{ bucket: Date | null; microcents: bigint }>(READ_USAGE, [
    organizationId,
    toTimestamp(span.startDayMs),
    toTimestamp(span.startHourMs),
    toTimestamp(span.startMs),
    toTimestamp(span.firstDayMs),
    toTimestamp(span.lastDayMs),
    toTimestamp(span.endHourMs),
    toTimestamp(span.endMs),
    bucket,
    bucketsMost + EDGE_HOURS,
    bucketsMost,
  ])
  const sums: BucketSum[] = []
  let beforeMicrocents = 0n
  for (const row of rows) {
    if (row.bucket === null) beforeMicrocents = row.microcents
    else sums.push({ startMs: row.bucket.getTime(), microcents: row.microcents })
  }
  return { beforeMicrocents, sums }
}

// $2 the start's day, $3 its hour, $4 the start; [$5, $6) whole days; $7 the end's hour, $8 the end. Charges of a day that
// retention has dropped are gone: an edge within an hour of such a day counts as the beginning of that hour, here and as
// the end of the window before alike.
const READ_USAGE = `
  with at_start as (
    select coalesce(sum(cost_microcents), 0) as microcents, count(*) as requests from charges
    where organization_id = $1::uuid and admitted_at >= $3::timestamptz and admitted_at < $4::timestamptz
  ), at_end as (
    select coalesce(sum(cost_microcents), 0) as microcents, count(*) as requests from charges
    where organization_id = $1::uuid and admitted_at >= $7::timestamptz and admitted_at < $8::timestamptz
  ), pieces as (
    (select day as at, sum(cost_microcents) as microcents, sum(requests) as requests from usage_days
      where organization_id = $1::uuid and day >= $5::timestamptz and day < $6::timestamptz group by day)
    union all
    (select hour, sum(cost_microcents), sum(requests) from usage_rollups
      where organization_id = $1::uuid and hour >= $3::timestamptz and hour < $5::timestamptz
      group by hour order by hour limit $10::integer)
    union all
    (select hour, sum(cost_microcents), sum(requests) from usage_rollups
      where organization_id = $1::uuid and hour >= $6::timestamptz and hour < $7::timestamptz group by hour)
    union all
    select $3::timestamptz, -microcents, -requests from at_start
    union all
    select $7::timestamptz, microcents, requests from at_end
  )
  select null::timestamptz as bucket, (
    (select coalesce(sum(cost_microcents), 0) from usage_days
      where organization_id = $1::uuid and day < $2::timestamptz)
    + (select coalesce(sum(cost_microcents), 0) from usage_rollups
      where organization_id = $1::uuid and hour >= $2::timestamptz and hour < $3::timestamptz)
    + (select microcents from at_start)
  )::bigint as microcents
  union all
  (select date_trunc($9::text, at, 'UTC') as bucket, sum(microcents)::bigint from pieces
    group by 1 having sum(requests) > 0 order by 1 limit $11::integer)
  order by 1 nulls first`
