/** The queries on rollups and charges that `GET /usage` is answered from. They only read. */

import type { Queryable } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { Bucket, BucketSum, GroupSum, Span } from './bucket.ts'
import type { Grouping } from './cursor.ts'

/** The sum of the charges in one bucket, and the GPU seconds among them. */
interface UsageSum extends BucketSum {
  readonly gpuSeconds: number
}

export interface UsageTotals {
  /** The running total of the organization at the start of the span, in micro-cents. */
  readonly beforeMicrocents: bigint
  /** Buckets with at least one charge, oldest first. */
  readonly sums: readonly UsageSum[]
}

/** So many hours of instances are in a bucket; none of them is empty. */
const HOURS_MOST: Readonly<Record<Bucket, number>> = { hour: 1, day: 24, week: 7 * 24, month: 31 * 24 }

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
): Promise<UsageTotals> {
  const rows = await db.query<{ bucket: Date | null; microcents: bigint; gpu_seconds: bigint }>(
    READ_USAGE,
    parametersOf(organizationId, bucket, span, bucketsMost),
  )
  const sums: UsageSum[] = []
  let beforeMicrocents = 0n
  for (const { bucket: at, microcents, gpu_seconds } of rows) {
    if (at === null) beforeMicrocents = microcents
    else sums.push({ startMs: at.getTime(), microcents, gpuSeconds: Number(gpu_seconds) })
  }
  return { beforeMicrocents, sums }
}

function parametersOf(organizationId: string, bucket: Bucket, span: Span, most: number) {
  return [
    organizationId,
    toTimestamp(span.startDayMs),
    toTimestamp(span.startHourMs),
    toTimestamp(span.startMs),
    toTimestamp(span.firstDayMs),
    toTimestamp(span.lastDayMs),
    toTimestamp(span.endHourMs),
    toTimestamp(span.endMs),
    bucket,
    most + EDGE_HOURS,
    most,
    most * HOURS_MOST[bucket] + EDGE_HOURS,
  ]
}

// $2 the start's day, $3 its hour, $4 the start; [$5, $6) whole days; $7 the end's hour, $8 the end. Charges of a day that
// retention has dropped are gone: an edge within an hour of such a day counts as the beginning of that hour, here and as
// the end of the window before alike.
const PIECES = `at_start as (
    select coalesce(sum(cost_microcents), 0) as microcents, count(*) as requests,
      coalesce(sum(instance_seconds::bigint * gpu_count), 0) as gpu_seconds from charges
    where organization_id = $1::uuid and admitted_at >= $3::timestamptz and admitted_at < $4::timestamptz
  ), at_end as (
    select coalesce(sum(cost_microcents), 0) as microcents, count(*) as requests,
      coalesce(sum(instance_seconds::bigint * gpu_count), 0) as gpu_seconds from charges
    where organization_id = $1::uuid and admitted_at >= $7::timestamptz and admitted_at < $8::timestamptz
  ), pieces as (
    (select day as at, sum(cost_microcents) as microcents, sum(requests) as requests, 0 as gpu_seconds from usage_days
      where organization_id = $1::uuid and day >= $5::timestamptz and day < $6::timestamptz group by day)
    union all
    (select hour, sum(cost_microcents), sum(requests), 0 from usage_hours
      where organization_id = $1::uuid and hour >= $3::timestamptz and hour < $5::timestamptz
      group by hour order by hour limit $10::integer)
    union all
    (select hour, sum(cost_microcents), sum(requests), 0 from usage_hours
      where organization_id = $1::uuid and hour >= $6::timestamptz and hour < $7::timestamptz group by hour)
    union all
    (select hour, 0, 0, sum(gpu_seconds) from instance_hours
      where organization_id = $1::uuid and hour >= $3::timestamptz and hour < $7::timestamptz
      group by hour order by hour limit $12::integer)
    union all
    select $3::timestamptz, -microcents, -requests, -gpu_seconds from at_start
    union all
    select $7::timestamptz, microcents, requests, gpu_seconds from at_end
  ), buckets as (
    select date_trunc($9::text, at, 'UTC') as bucket, sum(microcents)::bigint as microcents, sum(requests)::bigint as requests,
      sum(gpu_seconds)::bigint as gpu_seconds from pieces group by 1
  ), before as (
    select (
      (select coalesce(sum(cost_microcents), 0) from usage_days
        where organization_id = $1::uuid and day < $2::timestamptz)
      + (select coalesce(sum(cost_microcents), 0) from usage_hours
        where organization_id = $1::uuid and hour >= $2::timestamptz and hour < $3::timestamptz)
      + (select microcents from at_start)
    )::bigint as microcents
  )`

const READ_USAGE = `
  with ${PIECES}
  select null::timestamptz as bucket, microcents, 0::bigint as gpu_seconds from before
  union all
  (select bucket, microcents, gpu_seconds from buckets where requests > 0 order by 1 limit $11::integer)
  order by 1 nulls first`

/**
 * Reads what each group was charged in the buckets of a span, at most `most` behind `after`, by bucket and group, that of calls to
 * models first. Those of the first bucket up to `after` come too: the running totals of later buckets are counted from them.
 */
export async function readGroupedUsage(
  db: Queryable,
  organizationId: string,
  asked: { readonly bucket: Bucket; readonly span: Span; readonly groupBy: Grouping },
  page: { readonly after: { readonly startMs: number; readonly group: string | null } | null; readonly most: number },
): Promise<GroupSum[]> {
  const { after, most } = page
  const rows = await db.query<{
    bucket: Date
    grouped: string | null
    gpu_type: string | null
    microcents: bigint
    gpu_seconds: bigint
    before: bigint
  }>(asked.groupBy === 'instance_id' ? BY_INSTANCE : BY_GPU_TYPE, [
    ...parametersOf(organizationId, asked.bucket, asked.span, most),
    after === null ? null : toTimestamp(after.startMs),
    after?.group ?? null,
  ])
  return rows.map((row) => ({
    startMs: row.bucket.getTime(),
    group: row.grouped,
    gpuType: row.gpu_type,
    microcents: row.microcents,
    gpuSeconds: Number(row.gpu_seconds),
    beforeMicrocents: row.before,
  }))
}

// Beside those of PIECES: $13 the bucket of the last row that was shown, $14 its group.
const groupedBy = (group: string) => `
  with ${PIECES}, parts as (
    select hour as at, ${group} as grouped, gpu_type, cost_microcents as microcents, gpu_seconds, requests from instance_hours
      where organization_id = $1::uuid and hour >= $3::timestamptz and hour < $7::timestamptz
    union all
    select $3::timestamptz, ${group}, gpu_type, -cost_microcents, -instance_seconds::bigint * gpu_count, -1 from charges
      where organization_id = $1::uuid and admitted_at >= $3::timestamptz and admitted_at < $4::timestamptz
        and instance_id is not null
    union all
    select $7::timestamptz, ${group}, gpu_type, cost_microcents, instance_seconds::bigint * gpu_count, 1 from charges
      where organization_id = $1::uuid and admitted_at >= $7::timestamptz and admitted_at < $8::timestamptz
        and instance_id is not null
  ), rented as (
    select date_trunc($9::text, at, 'UTC') as bucket, grouped, max(gpu_type) as gpu_type, sum(microcents)::bigint as microcents,
      sum(gpu_seconds)::bigint as gpu_seconds, sum(requests) as requests from parts group by 1, 2
  ), rented_before as (
    select grouped, sum(microcents)::bigint as microcents from (
      select ${group} as grouped, cost_microcents as microcents from instance_hours
        where organization_id = $1::uuid and hour < $3::timestamptz
      union all
      select ${group}, cost_microcents from charges
        where organization_id = $1::uuid and admitted_at >= $3::timestamptz and admitted_at < $4::timestamptz
          and instance_id is not null
    ) earlier group by 1
  ), shown as (
    select b.bucket, null::text as grouped, null::text as gpu_type, b.microcents - coalesce(r.microcents, 0) as microcents,
      0::bigint as gpu_seconds, (select microcents from before)
        - (select coalesce(sum(microcents), 0) from rented_before) as before
    from buckets b left join (select bucket, sum(microcents) as microcents, sum(requests) as requests
      from rented group by 1) r using (bucket)
    where b.requests - coalesce(r.requests, 0) > 0
    union all
    select bucket, grouped, gpu_type, microcents, gpu_seconds,
      coalesce((select microcents from rented_before e where e.grouped = r.grouped), 0)
    from rented r where requests > 0
  ), known as (
    select *, coalesce(bucket <= $13::timestamptz and (grouped is null or grouped collate "C" <= $14::text), false) as is_known from shown
  )
  select bucket, grouped, gpu_type, microcents::bigint, gpu_seconds, before::bigint from known
  order by bucket, grouped collate "C" nulls first limit $11::integer + (select count(*) from known where is_known)`

const BY_INSTANCE = groupedBy('instance_id::text')
const BY_GPU_TYPE = groupedBy('gpu_type')

/** Returns how many micro-cents an organization was charged since the hour of an instant (milliseconds since the epoch). */
export async function readChargedSince(db: Queryable, organizationId: string, sinceMs: number): Promise<bigint> {
  const rows = await db.query<{ microcents: bigint }>(
    `select coalesce(sum(cost_microcents), 0)::bigint as microcents from usage_hours
     where organization_id = $1::uuid and hour >= date_trunc('hour', $2::timestamptz, 'UTC')`,
    [organizationId, toTimestamp(sinceMs)],
  )
  return rows[0]?.microcents ?? 0n
}
