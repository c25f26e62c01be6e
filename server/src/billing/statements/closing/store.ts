/** Every query that closes days and months, and that keeps the sums of charges by the day on which they were posted. */

import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { LOCK_CLASS } from '../../../infra/postgres/locks.ts'
import { toTimestamp } from '../../../lib/time.ts'

/** The first instant that no closed day has; it is in the past of all instants where no day is closed. */
const OPEN_FROM = `coalesce((select (max(day) + 1)::timestamp at time zone 'UTC' from closed_days), '-infinity'::timestamptz)`

/** Keeps others from closing, and from dropping charges, until the end of the transaction. False: another process is at it. */
export async function lockClosing(tx: Transaction): Promise<boolean> {
  const rows = await tx.query<{ mine: boolean }>('select pg_try_advisory_xact_lock($1::int4, 0) as mine', [
    LOCK_CLASS.retention,
  ])
  return rows[0]?.mine === true
}

/** Returns the first UTC day that is not closed, as `YYYY-MM-DD`; null where none is closed and nothing was ever charged. */
export async function readFirstOpenDay(db: Queryable): Promise<string | null> {
  const rows = await db.query<{ day: string | null }>(
    // A charge may be posted a moment before its admission, where two processes have different clocks.
    `select to_char(coalesce((select max(day) + 1 from closed_days),
       ((select min(admitted_at) from charges) at time zone 'UTC')::date - 1), 'YYYY-MM-DD') as day`,
  )
  return rows[0]?.day ?? null
}

/** Adds what was posted in a window within one UTC day to the sums of that day. */
export async function sumPosted(tx: Transaction, startMs: number, endMs: number): Promise<void> {
  await tx.query(`${ADD_SUMS} where posted_at >= $1::timestamptz and posted_at < $2::timestamptz ${GROUPED}`, [
    toTimestamp(startMs),
    toTimestamp(endMs),
  ])
}

/**
 * Adds charges that are about to be dropped, all of one UTC day of admission, to the sums of the days on which they were posted.
 * Those that were posted on a closed day are in its sums already.
 */
export async function sumDropped(tx: Transaction, dayMs: number, endMs: number): Promise<void> {
  await tx.query(
    `${ADD_SUMS} where admitted_at >= $1::timestamptz and admitted_at < $2::timestamptz and posted_at >= ${OPEN_FROM} ${GROUPED}`,
    [toTimestamp(dayMs), toTimestamp(endMs)],
  )
}

const ADD_SUMS = `
  insert into posted_sums as s (organization_id, posted_day, admitted_day, model, tier, charges, cost_microcents)
  select organization_id, (posted_at at time zone 'UTC')::date, (admitted_at at time zone 'UTC')::date, model, tier, count(*),
    sum(cost_microcents)
  from named_charges`

const GROUPED = `
  group by 1, 2, 3, 4, 5
  on conflict (organization_id, posted_day, admitted_day, model, tier) do update set
    charges = s.charges + excluded.charges, cost_microcents = s.cost_microcents + excluded.cost_microcents`

/** Notes that a UTC day is closed. */
export async function noteClosedDay(tx: Transaction, day: string, atMs: number): Promise<void> {
  await tx.query('insert into closed_days (day, closed_at) values ($1::date, $2::timestamptz)', [
    day,
    toTimestamp(atMs),
  ])
}

/** Returns the first UTC month that is not closed although all of its days are, as `YYYY-MM-01`; null where there is none. */
export async function readMonthToClose(db: Queryable): Promise<string | null> {
  const rows = await db.query<{ month: string }>(
    `select to_char(month, 'YYYY-MM-DD') as month from (
       select coalesce((select (max(month) + interval '1 month')::date from closed_months), date_trunc('month', least(
         (select min(day) from closed_days), (select min(posted_day) from posted_sums),
         (select (min(posted_at) at time zone 'UTC')::date from ledger_entries)))::date) as month
     ) m where month + interval '1 month' <= (select max(day) + 1 from closed_days)`,
  )
  return rows[0]?.month ?? null
}

/** Whether all statements of the month, `YYYY-MM-01`, are written. */
export async function isClosedMonth(tx: Transaction, month: string): Promise<boolean> {
  return (await tx.query('select from closed_months where month = $1::date', [month])).length > 0
}

/**
 * Writes the statements of a month for a page of the accounts that have none, in the order of their ids. Returns the last of
 * them; null: there are no more.
 */
export async function insertStatements(
  tx: Transaction,
  month: string,
  afterId: string,
  limit: number,
  atMs: number,
): Promise<string | null> {
  const rows = await tx.query<{ last: string }>(INSERT_STATEMENTS, [month, afterId, limit, toTimestamp(atMs)])
  return rows[0]?.last ?? null
}

const MONTH_START = `$1::date::timestamp at time zone 'UTC'`
const MONTH_END = `($1::date + interval '1 month')::timestamp at time zone 'UTC'`

const INSERT_STATEMENTS = `
  with page as (
    select a.organization_id from accounts a where a.organization_id > $2::uuid
      and not exists (select from statements s where s.organization_id = a.organization_id and s.month = $1::date)
    order by a.organization_id limit $3::integer
  ), credited as (
    select e.organization_id, e.kind, split_part(e.source, ':', 1) as source, count(*) as entries,
      sum(e.amount_microcents) as microcents
    from page join ledger_entries e using (organization_id)
    where e.kind <> 'charges' and e.posted_at >= ${MONTH_START} and e.posted_at < ${MONTH_END} group by 1, 2, 3
  ), moved as (
    select organization_id, coalesce((
        select closing_microcents from statements s
        where s.organization_id = p.organization_id and s.month = ($1::date - interval '1 month')::date
      ), (select coalesce(sum(amount_microcents), 0) from ledger_entries e
        where e.organization_id = p.organization_id and e.kind <> 'charges' and e.posted_at < ${MONTH_START})
      - (select coalesce(sum(cost_microcents), 0) from posted_sums s
        where s.organization_id = p.organization_id and s.posted_day < $1::date)) as opening,
      (select coalesce(sum(microcents), 0) from credited c where c.organization_id = p.organization_id) as credits,
      (select coalesce(sum(cost_microcents), 0) from posted_sums s where s.organization_id = p.organization_id
        and s.posted_day >= $1::date and s.posted_day < ($1::date + interval '1 month')::date) as charged
    from page p
  ), made as (
    insert into statements (organization_id, month, opening_microcents, closing_microcents, closed_at)
    select organization_id, $1::date, opening, opening + credits - charged, $4::timestamptz from moved
  ), told as (
    insert into statement_credits (organization_id, month, kind, source, entries, amount_microcents)
    select organization_id, $1::date, kind, source, entries, microcents from credited
  )
  select organization_id as last from page order by organization_id desc limit 1`

/** Notes that every account has its statement of a month. */
export async function noteClosedMonth(tx: Transaction, month: string, atMs: number): Promise<void> {
  await tx.query('insert into closed_months (month, closed_at) values ($1::date, $2::timestamptz)', [
    month,
    toTimestamp(atMs),
  ])
}

/** An account whose statements come to something else than its books. Micro-cents. */
export interface StatedDifference {
  readonly organizationId: string
  /** The total by time of posting: closed months, closed days, and everything posted since. */
  readonly stated: bigint
  /** All entries of the ledger less all charges by their day of admission. */
  readonly booked: bigint
}

/**
 * Holds, for a page of accounts in the order of their ids, closed months and days with everything that was posted since against all
 * entries and the sums by day of admission. `beforeMs` is an instant after all charges. `lastId` is null on the last page.
 */
export async function compareStatements(
  db: Queryable,
  afterId: string,
  limit: number,
  beforeMs: number,
): Promise<{ readonly differences: StatedDifference[]; readonly lastId: string | null }> {
  const rows = await db.query<{ organization_id: string; stated: bigint; booked: bigint }>(
    `select a.organization_id, (k.sum + n.sum - s.sum - c.sum)::bigint as stated, (e.sum - d.sum)::bigint as booked
     from (select organization_id from accounts where organization_id > $1::uuid order by 1 limit $2::integer) a
     cross join lateral (select coalesce(sum(amount_microcents), 0) as sum from statement_credits
       where organization_id = a.organization_id) k
     cross join lateral (select coalesce(sum(amount_microcents), 0) as sum from ledger_entries
       where organization_id = a.organization_id and kind <> 'charges' and posted_at >= coalesce(
         (select (max(month) + interval '1 month')::timestamp at time zone 'UTC' from closed_months), '-infinity'::timestamptz)) n
     cross join lateral (select coalesce(sum(cost_microcents), 0) as sum from posted_sums
       where organization_id = a.organization_id) s
     cross join lateral (select coalesce(sum(cost_microcents), 0) as sum from charges
       where organization_id = a.organization_id and posted_at >= ${OPEN_FROM} and posted_at < $3::timestamptz) c
     cross join lateral (select coalesce(sum(amount_microcents), 0) as sum from ledger_entries
       where organization_id = a.organization_id and kind <> 'charges') e
     cross join lateral (select coalesce(sum(cost_microcents), 0) as sum from usage_days
       where organization_id = a.organization_id) d
     order by a.organization_id`,
    [afterId, limit, toTimestamp(beforeMs)],
  )
  const differences = rows
    .filter(({ stated, booked }) => stated !== booked)
    .map(({ organization_id, stated, booked }) => ({ organizationId: organization_id, stated, booked }))
  return { differences, lastId: rows.length < limit ? null : (rows.at(-1)?.organization_id ?? null) }
}
