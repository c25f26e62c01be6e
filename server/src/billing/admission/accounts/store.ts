/** The queries on accounts: their figures, limits, newness and notices. Grants: `billing/admission/renewal/store.ts`. */

import type { Queryable } from '../../../infra/postgres/database.ts'
import { CLOCKS_APART } from './windows.ts'

export interface FiguresRow {
  readonly balance: bigint
  readonly granted: bigint
  readonly held: bigint
  readonly instances_held: bigint
  readonly burn: bigint
  readonly day_spent: bigint
  readonly month_spent: bigint
  readonly hour_spent: bigint
  readonly is_new: boolean
  readonly daily_limit: bigint | null
  readonly monthly_limit: bigint | null
  readonly enforcement: 'stop_running' | 'block_launch' | 'notify_only'
  readonly auto_terminate_hours: number | null
}

/** A spending limit. */
export interface LimitRow {
  readonly monthly: bigint | null
  readonly daily: bigint | null
  readonly enforcement: FiguresRow['enforcement']
  readonly hours: number | null
}

const WITHIN = (instant: string, start: string, period: 'day' | 'month') =>
  `${instant} >= ${start}::timestamptz and ${instant} < ${start}::timestamptz + interval '1 ${period}'`

/** All charges of a period that the account is not in: it has not come to it yet, or a false clock took it past it. */
const CHARGED = (start: string, period: 'day' | 'month') =>
  `(select coalesce(sum(cost_microcents), 0)::bigint from usage_days
       where organization_id = $1::uuid and ${WITHIN('day', start, period)})`

/** The last instant that counts: charges of a later one are of a false clock. */
const LATEST = `$2::timestamptz + ${CLOCKS_APART}`

/** An account with everything posted counted in, folded or not: one statement, so one state of the books. */
export async function selectFigures(
  db: Queryable,
  organizationId: string,
  now: { readonly at: string; readonly day: string; readonly month: string; readonly windowFrom: string },
): Promise<FiguresRow | null> {
  const rows = await db.query<FiguresRow>(
    `with unfolded as (
       select coalesce(sum(spent_microcents), 0)::bigint as spent,
         coalesce(sum(spent_microcents) filter (where ${WITHIN('minute', '$3::date', 'day')}), 0)::bigint as day,
         coalesce(sum(spent_microcents) filter (where ${WITHIN('minute', '$4::date', 'month')}), 0)::bigint as month,
         coalesce(sum(spent_microcents) filter (where minute >= $5::timestamptz and minute <= ${LATEST}), 0)::bigint as hour
       from unfolded_spend where organization_id = $1::uuid
     ), unspent as (
       select coalesce(sum(greatest(l.granted_microcents - coalesce(s.spent, 0), 0)), 0)::bigint as granted
       from account_shares l left join (select slot, sum(spent_microcents) as spent from unfolded_spend
         where organization_id = $1::uuid group by slot) s using (slot)
       where l.organization_id = $1::uuid
     ), minutes as (
       select coalesce(sum(spent_microcents), 0)::bigint as spent from account_minutes
       where organization_id = $1::uuid and minute >= $5::timestamptz and minute <= ${LATEST}
     )
     select a.balance_microcents - s.spent as balance, u.granted, a.held_microcents as held,
       a.instances_held_microcents as instances_held, a.burn_microcents as burn,
       case when a.day = $3::date then a.day_spent_microcents + s.day else ${CHARGED('$3::date', 'day')} end as day_spent,
       case when a.month = $4::date then a.month_spent_microcents + s.month else ${CHARGED('$4::date', 'month')} end as month_spent,
       m.spent + s.hour as hour_spent, coalesce(a.new_until > $2::timestamptz, false) as is_new,
       a.daily_limit_microcents as daily_limit, a.monthly_limit_microcents as monthly_limit,
       a.enforcement, a.auto_terminate_hours
     from accounts a, unfolded s, unspent u, minutes m where a.organization_id = $1::uuid`,
    [organizationId, now.at, now.day, now.month, now.windowFrom],
  )
  return rows[0] ?? null
}

/**
 * Sets the spending limit. Null of `daily` leaves it, 0 clears it; null of `enforcement` leaves it; the hours are set
 * only where `setsHours`. Returns the limit as it was and as it is; null when there is no account. Values that are there already write nothing.
 */
export async function updateLimit(
  db: Queryable,
  organizationId: string,
  change: {
    readonly monthly: bigint
    readonly daily: bigint | null
    readonly enforcement: string | null
    readonly setsHours: boolean
    readonly hours: number | null
  },
): Promise<{ readonly before: LimitRow; readonly after: LimitRow } | null> {
  const rows = await db.query<
    LimitRow & {
      readonly was_monthly: bigint | null
      readonly was_daily: bigint | null
      readonly was_enforcement: LimitRow['enforcement']
      readonly was_hours: number | null
    }
  >(
    `with old as materialized (
       select organization_id, monthly_limit_microcents, daily_limit_microcents, enforcement, auto_terminate_hours
       from accounts where organization_id = $1::uuid for no key update
     ), wanted as (
       select organization_id, $2::bigint as monthly, nullif(coalesce($3::bigint, daily_limit_microcents), 0) as daily,
         coalesce($4::text, enforcement) as enforcement,
         case when $5::boolean then $6::integer else auto_terminate_hours end as hours
       from old
     ), changed as (
       update accounts a set monthly_limit_microcents = w.monthly, daily_limit_microcents = w.daily,
         enforcement = w.enforcement, auto_terminate_hours = w.hours
       from wanted w where a.organization_id = w.organization_id
         and (a.monthly_limit_microcents, a.daily_limit_microcents, a.enforcement, a.auto_terminate_hours)
           is distinct from (w.monthly, w.daily, w.enforcement, w.hours)
     )
     select w.monthly, w.daily, w.enforcement, w.hours, old.monthly_limit_microcents as was_monthly,
       old.daily_limit_microcents as was_daily, old.enforcement as was_enforcement, old.auto_terminate_hours as was_hours
     from wanted w join old using (organization_id)`,
    [organizationId, change.monthly, change.daily, change.enforcement, change.setsHours, change.hours],
  )
  const [row] = rows
  if (row === undefined) return null
  const { was_monthly: monthly, was_daily: daily, was_enforcement: enforcement, was_hours: hours } = row
  return { before: { monthly, daily, enforcement, hours }, after: row }
}

/** Ends the cap of new accounts for one of them. */
export async function clearNewUntil(db: Queryable, organizationId: string): Promise<void> {
  await db.query('update accounts set new_until = null where organization_id = $1::uuid and new_until is not null', [
    organizationId,
  ])
}

/** Tells every process something about an organization. Never inside a transaction that changes money. */
export async function notify(db: Queryable, channel: string, payload: string): Promise<void> {
  await db.query('select pg_notify($1, $2)', [channel, payload])
}

/**
 * Notes that a limit refused a call, with what was spent: at most once for its period. True when this was the first
 * time. Of the cap of new accounts the period is the UTC day.
 */
export async function insertNotice(
  db: Queryable,
  notice: {
    readonly organizationId: string
    readonly kind: 'daily' | 'monthly' | 'new_account'
    readonly period: string
    readonly amountMicrocents: bigint
    readonly limitMicrocents: bigint
    readonly enforcement: string
    readonly at: string
  },
): Promise<boolean> {
  const rows = await db.query(
    `insert into notices (organization_id, kind, period, amount_microcents, limit_microcents, enforcement, noticed_at)
     values ($1::uuid, $2, $3::date::timestamptz, $4::bigint, $5::bigint, $6, $7::timestamptz)
     on conflict do nothing returning kind`,
    [
      notice.organizationId,
      notice.kind,
      notice.period,
      notice.amountMicrocents,
      notice.limitMicrocents,
      notice.enforcement,
      notice.at,
    ],
  )
  return rows.length === 1
}
