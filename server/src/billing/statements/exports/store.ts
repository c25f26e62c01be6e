/** The queries of exports that do not list charges. They only read. */

import type { Queryable } from '../../../infra/postgres/database.ts'
import { toTimestamp, utcDay } from '../../../lib/time.ts'
import type { DroppedCharges, ExportedEntry, ExportWindow } from './export.ts'

/** Returns the UTC days of admission before `posted.startMs` of which charges were posted in a window, oldest first. */
export async function listLateDays(db: Queryable, { organizationId, startMs, endMs }: ExportWindow): Promise<string[]> {
  // Both bounds are there so that the planner expects few rows, and finds them by the small index on `posted_at`.
  const rows = await db.query<{ day: string }>(
    `select distinct to_char(admitted_at at time zone 'UTC', 'YYYY-MM-DD') as day from charges
     where organization_id = $1::uuid and admitted_at < $2::timestamptz and posted_at >= $2::timestamptz
       and posted_at < $3::timestamptz order by 1`,
    [organizationId, toTimestamp(startMs), toTimestamp(endMs)],
  )
  return rows.map(({ day }) => day)
}

/**
 * Returns what was posted in a window of whole UTC days and is gone: for each day of admission that retention has dropped, and each
 * model, its sums less the charges that came later and are there still.
 */
export async function readDroppedCharges(
  db: Queryable,
  { organizationId, startMs, endMs }: ExportWindow,
): Promise<DroppedCharges[]> {
  const rows = await db.query<{ day: string; model: string; tier: string; charges: bigint; microcents: bigint }>(
    `with summed as (
       select s.admitted_day, s.model, s.tier, sum(s.charges) as charges, sum(s.cost_microcents) as microcents
       from posted_sums s join dropped_days d on d.day = s.admitted_day
       where s.organization_id = $1::uuid and s.posted_day >= $2::date and s.posted_day < $3::date group by 1, 2, 3
     )
     select to_char(s.admitted_day, 'YYYY-MM-DD') as day, s.model, s.tier, (s.charges - c.charges)::bigint as charges,
       (s.microcents - c.microcents)::bigint as microcents
     from summed s cross join lateral (
       select count(*) as charges, coalesce(sum(cost_microcents), 0) as microcents
       from named_charges
       where organization_id = $1::uuid and model = s.model and tier = s.tier
         and admitted_at >= s.admitted_day::timestamp at time zone 'UTC'
         and admitted_at < (s.admitted_day + 1)::timestamp at time zone 'UTC'
         and posted_at >= $2::date::timestamp at time zone 'UTC' and posted_at < coalesce(
           (select least(max(day) + 1, $3::date)::timestamp at time zone 'UTC' from closed_days), '-infinity'::timestamptz)
     ) c where s.charges <> c.charges order by 1, 2, 3`,
    [organizationId, utcDay(startMs), utcDay(endMs)],
  )
  return rows.map(({ microcents, ...sums }) => ({ ...sums, costMicrocents: microcents }))
}

/** Returns how often retention has dropped charges that were posted in a window, and when it last did; null: never. */
export async function readDrops(
  db: Queryable,
  { organizationId, startMs, endMs }: ExportWindow,
): Promise<{ readonly times: number; readonly lastAtMs: number | null }> {
  const rows = await db.query<{ times: bigint; last_at: Date | null }>(
    `select coalesce(sum(d.times), 0)::bigint as times, max(d.dropped_at) as last_at from dropped_days d
     where d.day in (select admitted_day from posted_sums
       where organization_id = $1::uuid and posted_day >= $2::date and posted_day < $3::date)`,
    [organizationId, utcDay(startMs), utcDay(endMs)],
  )
  return { times: Number(rows[0]?.times ?? 0n), lastAtMs: rows[0]?.last_at?.getTime() ?? null }
}

/** Returns the oldest ledger entries of a window behind `after`, at most `limit`, without those that stand for dropped days. */
export async function readEntries(
  db: Queryable,
  { organizationId, startMs, endMs }: ExportWindow,
  after: { readonly postedAtMs: number; readonly id: string } | null,
  limit: number,
): Promise<ExportedEntry[]> {
  const rows = await db.query<{ id: string; posted_at: Date; kind: string; source: string; amount: bigint }>(
    `select id, posted_at, kind, source, amount_microcents as amount from ledger_entries
     where organization_id = $1::uuid and kind <> 'charges' and posted_at >= $2::timestamptz and posted_at < $3::timestamptz
       and ($4::uuid is null or posted_at > $2::timestamptz or id > $4::uuid)
     order by posted_at, id limit $5::integer`,
    [organizationId, toTimestamp(after?.postedAtMs ?? startMs), toTimestamp(endMs), after?.id ?? null, limit],
  )
  return rows.map(({ id, posted_at, kind, source, amount }) => ({
    id,
    postedAtMs: posted_at.getTime(),
    kind,
    source,
    amountMicrocents: amount,
  }))
}

/** Returns when an entry of an organization's ledger was posted; null where there is none of this id. */
export async function findEntryInstant(db: Queryable, organizationId: string, id: string): Promise<number | null> {
  const rows = await db.query<{ posted_at: Date }>(
    `select posted_at from ledger_entries where id = $2::uuid and organization_id = $1::uuid and kind <> 'charges'`,
    [organizationId, id],
  )
  return rows[0]?.posted_at.getTime() ?? null
}

/** Returns when an organization's charge of this id and instant of admission was posted; null where there is none. */
export async function findChargeInstant(
  db: Queryable,
  organizationId: string,
  id: string,
  admittedAtMs: number,
): Promise<number | null> {
  const rows = await db.query<{ posted_at: Date }>(
    `select posted_at from charges where admitted_at = $3::timestamptz and id = $2::uuid and organization_id = $1::uuid`,
    [organizationId, id, toTimestamp(admittedAtMs)],
  )
  return rows[0]?.posted_at.getTime() ?? null
}
