/** The queries that statements are read by. They only read. */

import type { Queryable } from '../../../infra/postgres/database.ts'
import { toTimestamp } from '../../../lib/time.ts'
import type { Month, Movements } from './month.ts'

interface LineRow {
  readonly part: 'opening' | 'credit' | 'charge'
  readonly name: string
  readonly detail: string
  readonly count: bigint
  readonly microcents: bigint
}

const firstDayOf = ({ name }: Month): string => `${name}-01`

/** Returns what is stored of a closed month; null where nothing is. */
export async function findStatement(
  db: Queryable,
  organizationId: string,
  month: Month,
): Promise<{ readonly movements: Movements; readonly closingMicrocents: bigint } | null> {
  const found = await db.query<{ opening: bigint; closing: bigint }>(
    `select opening_microcents as opening, closing_microcents as closing from statements
     where organization_id = $1::uuid and month = $2::date`,
    [organizationId, firstDayOf(month)],
  )
  const row = found[0]
  if (row === undefined) return null
  // None of these rows changes once the month is closed.
  const lines = await db.query<LineRow>(
    `select 'credit' as part, kind as name, source as detail, entries as count, amount_microcents as microcents
     from statement_credits where organization_id = $1::uuid and month = $2::date
     union all
     select 'charge', model, tier, sum(charges)::bigint, sum(cost_microcents)::bigint from posted_sums
     where organization_id = $1::uuid and posted_day >= $2::date and posted_day < ($2::date + interval '1 month')::date
     group by model, tier order by 1, 2, 3`,
    [organizationId, firstDayOf(month)],
  )
  return {
    movements: { ...linesOf(lines), openingMicrocents: row.opening },
    closingMicrocents: row.closing,
  }
}

/** Adds up what was posted in a month that is not stored, and the balance before it, in one snapshot. */
export async function readMovements(db: Queryable, organizationId: string, month: Month): Promise<Movements> {
  const rows = await db.query<LineRow>(READ_MOVEMENTS, [
    organizationId,
    firstDayOf(month),
    toTimestamp(month.startMs),
    toTimestamp(month.endMs),
  ])
  const opening = rows.find(({ part }) => part === 'opening')
  return { ...linesOf(rows), openingMicrocents: opening?.microcents ?? 0n }
}

// `recent` are the charges that no closed day has. Both bounds are there so that the planner expects few rows, and finds those of
// older days by the small index on `posted_at`.
const READ_MOVEMENTS = `
  with recent as (
    select posted_at < $3::timestamptz as is_before, model, tier, count(*) as charges, sum(cost_microcents) as microcents
    from named_charges where organization_id = $1::uuid and posted_at < $4::timestamptz and posted_at >= coalesce(
      (select (max(day) + 1)::timestamp at time zone 'UTC' from closed_days), '-infinity'::timestamptz)
    group by 1, 2, 3
  )
  select 'opening' as part, '' as name, '' as detail, 0::bigint as count, coalesce((
      select closing_microcents from statements
      where organization_id = $1::uuid and month = ($2::date - interval '1 month')::date
    ), (select coalesce(sum(amount_microcents), 0) from ledger_entries
      where organization_id = $1::uuid and kind <> 'charges' and posted_at < $3::timestamptz)
    - (select coalesce(sum(cost_microcents), 0) from posted_sums where organization_id = $1::uuid and posted_day < $2::date)
    - (select coalesce(sum(microcents), 0) from recent where is_before))::bigint as microcents
  union all
  select 'credit', kind, split_part(source, ':', 1), count(*), sum(amount_microcents)::bigint from ledger_entries
  where organization_id = $1::uuid and kind <> 'charges' and posted_at >= $3::timestamptz and posted_at < $4::timestamptz
  group by 2, 3
  union all
  select 'charge', model, tier, sum(charges)::bigint, sum(microcents)::bigint from (
    select model, tier, charges, cost_microcents as microcents from posted_sums
    where organization_id = $1::uuid and posted_day >= $2::date and posted_day < ($2::date + interval '1 month')::date
    union all
    select model, tier, charges, microcents from recent where not is_before
  ) c group by model, tier
  order by 1, 2, 3`

function linesOf(rows: readonly LineRow[]): Omit<Movements, 'openingMicrocents'> {
  return {
    credits: rows
      .filter(({ part }) => part === 'credit')
      .map(({ name, detail, count, microcents }) => ({
        kind: name,
        source: detail,
        entries: count,
        amountMicrocents: microcents,
      })),
    charges: rows
      .filter(({ part }) => part === 'charge')
      .map(({ name, detail, count, microcents }) => ({
        model: name,
        tier: detail,
        charges: count,
        costMicrocents: microcents,
      })),
  }
}
