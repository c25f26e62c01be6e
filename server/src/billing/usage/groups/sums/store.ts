/** The queries that sum blocks of hours, and tell which of their sums hold. `groups/store.ts` reads the sums. */

import type { Queryable, Transaction } from '../../../../infra/postgres/database.ts'
import { LOCK_CLASS } from '../../../../infra/postgres/locks.ts'
import { toTimestamp } from '../../../../lib/time.ts'
import type { Window } from '../../bucket.ts'
import { DAY_HOURS, LONG_BLOCK_HOURS, PART_HOURS, type UsageBlock } from './block.ts'
import { SUM_COLUMNS, SUMMED, SUMS_OF_COLUMNS } from './columns.ts'

/**
 * `totals` is of the days themselves, as the statement that posts charges keeps them. Sums of a block hold where they make the same
 * total: charges only add, at least one request each, so sums that miss one have a lower total. Of a day that went on when it was summed
 * the hours since then are added before the totals are compared.
 */
const SELECT_BLOCKS = `
  with days as (
    select day, sum(requests) as requests, sum(cost_microcents) as cost_microcents from usage_days
    where organization_id = $1::uuid and day >= $2::timestamptz and day < $3::timestamptz group by day
  ), totals as materialized (
    select l.hours, date_bin(l.hours * interval '1 hour', d.day, 'epoch') as starts_at,
      sum(d.requests) as requests, sum(d.cost_microcents) as cost_microcents
    from days d cross join unnest(array[${[DAY_HOURS, ...LONG_BLOCK_HOURS].join(', ')}]) as l (hours) group by 1, 2
  )
  select t.hours, t.starts_at, case
    when b.requests + since.requests = t.requests and b.cost_microcents + since.cost_microcents = t.cost_microcents
    then b.summed_until end as summed_until
  from totals t
  left join usage_blocks b on b.organization_id = $1::uuid and b.hours = t.hours and b.starts_at = t.starts_at
  cross join lateral (
    select coalesce(sum(h.requests), 0) as requests, coalesce(sum(h.cost_microcents), 0) as cost_microcents
    from usage_hours h
    where b.summed_until < b.starts_at + b.hours * interval '1 hour' and h.organization_id = $1::uuid
      and h.hour >= b.summed_until and h.hour < b.starts_at + b.hours * interval '1 hour'
  ) since
  where t.starts_at >= $2::timestamptz and t.starts_at + t.hours * interval '1 hour' <= $3::timestamptz`

/** Returns the blocks within a window of whole days that have usage, and up to when their sums hold. */
export async function selectUsageBlocks(
  db: Queryable,
  organizationId: string,
  { startMs, endMs }: Window,
): Promise<UsageBlock[]> {
  const rows = await db.query<{ hours: number; starts_at: Date; summed_until: Date | null }>(SELECT_BLOCKS, [
    organizationId,
    toTimestamp(startMs),
    toTimestamp(endMs),
  ])
  return rows.map(({ hours, starts_at, summed_until }) => ({
    hours,
    startMs: starts_at.getTime(),
    summedUntilMs: summed_until?.getTime() ?? null,
  }))
}

/** Lets one transaction at a time sum usage of an organization. False: another process is at it. */
export async function lockUsageSums(tx: Transaction, organizationId: string): Promise<boolean> {
  const rows = await tx.query<{ mine: boolean }>('select pg_try_advisory_xact_lock($1::int4, hashtext($2)) as mine', [
    LOCK_CLASS.usageSums,
    organizationId,
  ])
  return rows[0]?.mine === true
}

/** Inserts or replaces the sums that the table `made` has. A row that stands already with as many requests is the same. */
const UPSERT_SUMS = `
  insert into usage_sums as kept (organization_id, hours, starts_at, model, tier, key_id, ${SUM_COLUMNS})
  select $1::uuid, hours, starts_at, model, tier, key_id, ${SUM_COLUMNS} from made
  order by hours, starts_at, model, tier, key_id
  on conflict (organization_id, hours, starts_at, model, tier, key_id) do update set
    ${SUMMED.map((column) => `${column} = excluded.${column}`).join(', ')}
  where kept.requests <> excluded.requests`

/** Inserts or replaces a block, with the total of the sums that the table `made` has of it. */
const upsertBlock = (hours: string, startsAt: string, summedUntil: string) => `
  insert into usage_blocks (organization_id, hours, starts_at, summed_until, requests, cost_microcents)
  select $1::uuid, ${hours}, ${startsAt}, ${summedUntil}, coalesce(sum(requests), 0), coalesce(sum(cost_microcents), 0)
  from made where made.hours = ${hours}
  on conflict (organization_id, hours, starts_at) do update set
    summed_until = excluded.summed_until, requests = excluded.requests, cost_microcents = excluded.cost_microcents`

const SUM_DAY = `
  with parts as materialized (
    select date_bin('${PART_HOURS} hours', hour, 'epoch') as starts_at, model, tier, key_id, ${SUMS_OF_COLUMNS}
    from usage_hours where organization_id = $1::uuid and hour >= $2::timestamptz and hour < $3::timestamptz
    group by 1, 2, 3, 4
  ), made as materialized (
    select ${PART_HOURS} as hours, parts.* from parts
    union all
    select ${DAY_HOURS}, $2::timestamptz, model, tier, key_id, ${SUMS_OF_COLUMNS} from parts group by model, tier, key_id
  ), kept as (${UPSERT_SUMS})
  ${upsertBlock(`${DAY_HOURS}`, '$2::timestamptz', '$3::timestamptz')}`

/** Sums a day, with its parts, up to `untilMs`: its end, or an instant within it while it goes on. */
export async function upsertDaySums(
  tx: Transaction,
  organizationId: string,
  startMs: number,
  untilMs: number,
): Promise<void> {
  await tx.query(SUM_DAY, [organizationId, toTimestamp(startMs), toTimestamp(untilMs)])
}

const SUM_LONG_BLOCK = `
  with made as materialized (
    select $2::integer as hours, $3::timestamptz as starts_at, model, tier, key_id, ${SUMS_OF_COLUMNS} from usage_sums
    where organization_id = $1::uuid and hours = $2::integer / 2
      and starts_at in ($3::timestamptz, $3::timestamptz + $2::integer / 2 * interval '1 hour')
    group by model, tier, key_id
  ), kept as (${UPSERT_SUMS})
  ${upsertBlock('$2::integer', '$3::timestamptz', "$3::timestamptz + $2::integer * interval '1 hour'")}`

/** Sums a block of several days from its two halves. Where a half does not hold, neither does the block, as its total tells. */
export async function upsertLongBlockSums(
  tx: Transaction,
  organizationId: string,
  hours: number,
  startMs: number,
): Promise<void> {
  await tx.query(SUM_LONG_BLOCK, [organizationId, hours, toTimestamp(startMs)])
}
