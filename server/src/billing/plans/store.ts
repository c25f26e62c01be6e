/** Every query on subscriptions, and the reads of plan meters. `billing/charges/store.ts` posts to the meters. */

import { arrayLiteral, type Queryable } from '../../infra/postgres/database.ts'
import type { MeteredSums } from '../../lib/disagreement.ts'
import { HOUR_MS, toTimestamp, WEEK_MS } from '../../lib/time.ts'
import type { PlanState } from './cover.ts'
import type { Subscription } from './subscription.ts'

/** Hours that begin later were metered by a clock that ran ahead, and count once they come (E20). */
const AHEAD_MOST = "interval '5 seconds'"

interface SubscriptionRow {
  readonly organization_id: string
  readonly plan: string
  readonly status: string
  readonly period_start: Date
  readonly period_end: Date
  readonly cancel_at_period_end: boolean
  readonly price: string | null
  readonly renewal_until: Date | null
  readonly carried_start: Date | null
  readonly carried_until: Date | null
}

const COLUMNS = 'organization_id, plan, status, period_start, period_end, cancel_at_period_end, price, renewal_until'

/** The columns with the meter that is carried on at an instant, a parameter. A meter until the period's end has its grace too. */
const columnsAt = (instant: string) => {
  const carried = `case when meter_until > ${instant}::timestamptz or meter_until = period_end then`
  return `${COLUMNS}, ${carried} meter_start end as carried_start, ${carried} meter_until end as carried_until`
}

/** The subscription of an organization with its meter at an instant; null where it never had one. */
export async function selectSubscription(
  db: Queryable,
  organizationId: string,
  atMs: number,
): Promise<Subscription | null> {
  const rows = await db.query<SubscriptionRow>(
    `select ${columnsAt('$2')} from subscriptions where organization_id = $1::uuid`,
    [organizationId, toTimestamp(atMs)],
  )
  return rows[0] === undefined ? null : fromRow(rows[0])
}

/** Puts a subscription in the place of the one before. */
export async function upsertSubscription(
  db: Queryable,
  organizationId: string,
  subscription: Subscription,
  atMs: number,
): Promise<void> {
  const { carriedMeter } = subscription
  await db.query(
    `insert into subscriptions (${COLUMNS}, changed_at, meter_start, meter_until)
     values ($1::uuid, $2, $3, $4::timestamptz, $5::timestamptz, $6::boolean, $7, $8::timestamptz, $9::timestamptz, $10::timestamptz,
       $11::timestamptz)
     on conflict (organization_id) do update set plan = excluded.plan, status = excluded.status,
       period_start = excluded.period_start, period_end = excluded.period_end,
       cancel_at_period_end = excluded.cancel_at_period_end, price = excluded.price,
       renewal_until = excluded.renewal_until, changed_at = excluded.changed_at,
       meter_start = excluded.meter_start, meter_until = excluded.meter_until`,
    [
      organizationId,
      subscription.planKey,
      subscription.status,
      toTimestamp(subscription.periodStartMs),
      toTimestamp(subscription.periodEndMs),
      subscription.cancelAtPeriodEnd,
      subscription.paymentPrice ?? null,
      subscription.renewalUntilMs === undefined ? null : toTimestamp(subscription.renewalUntilMs),
      toTimestamp(atMs),
      carriedMeter === undefined ? null : toTimestamp(carriedMeter.startMs),
      carriedMeter === undefined ? null : toTimestamp(carriedMeter.untilMs),
    ],
  )
}

/** Ends the subscription of an organization. Does nothing where it never had one. */
export async function endSubscription(db: Queryable, organizationId: string, atMs: number): Promise<void> {
  await db.query(
    `update subscriptions set status = 'canceled', changed_at = $2::timestamptz where organization_id = $1::uuid`,
    [organizationId, toTimestamp(atMs)],
  )
}

/**
 * Subscriptions with their meters, every charge that was posted counted in, by organization; those that never had one are
 * left out. Of the week an hour counts once it has begun, until all of it is more than 7 days ago.
 */
export async function readPlanStates(
  db: Queryable,
  organizationIds: readonly string[],
  nowMs: number,
): Promise<Map<string, PlanState>> {
  const rows = await db.query<
    SubscriptionRow & { input: bigint; output: bigint; list: bigint; weekly: bigint; oldest: Date | null }
  >(
    `select s.*, p.input, p.output, p.list, w.weekly, w.oldest
     from (select ${columnsAt('$3')} from subscriptions where organization_id = any($1::text::uuid[])) s
     cross join lateral (
       select coalesce(sum(input_tokens), 0)::bigint as input, coalesce(sum(output_tokens), 0)::bigint as output,
         coalesce(sum(list_microcents), 0)::bigint as list
       from plan_periods where organization_id = s.organization_id and period_start = coalesce(s.carried_start, s.period_start)) p
     cross join lateral (
       select coalesce(sum(input_tokens + output_tokens), 0)::bigint as weekly,
         min(hour) filter (where input_tokens + output_tokens > 0) as oldest
       from plan_hours where organization_id = s.organization_id and hour >= $2::timestamptz
         and hour <= $3::timestamptz + ${AHEAD_MOST}) w`,
    [arrayLiteral(organizationIds), toTimestamp(Math.floor(nowMs / HOUR_MS) * HOUR_MS - WEEK_MS), toTimestamp(nowMs)],
  )
  return new Map(
    rows.map((row) => [
      row.organization_id,
      {
        subscription: fromRow(row),
        usage: {
          inputTokens: row.input,
          outputTokens: row.output,
          weeklyTokens: row.weekly,
          listMicrocents: row.list,
        },
        oldestHourMs: row.oldest?.getTime() ?? null,
      },
    ]),
  )
}

/** Tells every process that an organization's subscription has changed. Never inside a transaction that changes money. */
export async function notifySubscription(db: Queryable, channel: string, organizationId: string): Promise<void> {
  await db.query('select pg_notify($1, $2)', [channel, organizationId])
}

/** Sums of the hours and of the period's meter that differ. Null where one side has none. */
interface PeriodDifference {
  readonly organizationId: string
  readonly periodStartMs: number
  readonly hours: MeteredSums | null
  readonly period: MeteredSums | null
}

/**
 * Holds the meters of periods against the sums of their hours, for a page of organizations after `afterId`. `lastId` is
 * the last of the page; null when there are no more.
 */
export async function comparePlanPeriods(
  db: Queryable,
  afterId: string,
  organizationsMost: number,
): Promise<{ readonly differences: readonly PeriodDifference[]; readonly lastId: string | null }> {
  // Both are cut before they are joined: a page reads its part of the indexes, and not all that is behind it.
  const of = (table: string) =>
    `(select distinct organization_id from ${table} where organization_id > $1::uuid order by organization_id limit $2::integer)`
  const page = await db.query<{ organization_id: string }>(
    `select organization_id from (${of('plan_periods')} union ${of('plan_hours')}) o order by organization_id limit $2::integer`,
    [afterId, organizationsMost],
  )
  const ids = page.map((row) => row.organization_id)
  const rows = await db.query<{
    organization_id: string
    period_start: Date
    hours: string[] | null
    period: string[] | null
  }>(
    `select organization_id, period_start, to_json(hours) as hours, to_json(period) as period from (
       select organization_id, period_start,
         array[sum(input_tokens), sum(output_tokens), sum(list_microcents)]::bigint[]::text[] as hours
       from plan_hours where organization_id = any($1::text::uuid[]) group by 1, 2
     ) h full join (
       select organization_id, period_start,
         array[sum(input_tokens), sum(output_tokens), sum(list_microcents)]::bigint[]::text[] as period
       from plan_periods where organization_id = any($1::text::uuid[]) group by 1, 2
     ) p using (organization_id, period_start)
     where hours is distinct from period`,
    [arrayLiteral(ids)],
  )
  return {
    differences: rows.map((row) => ({
      organizationId: row.organization_id,
      periodStartMs: row.period_start.getTime(),
      hours: toMetered(row.hours),
      period: toMetered(row.period),
    })),
    lastId: ids.length < organizationsMost ? null : (ids.at(-1) ?? null),
  }
}

/** Returns whether any plan's meter has counted something in a window of hours. */
export async function hasPlanHours(db: Queryable, startMs: number, endMs: number): Promise<boolean> {
  const rows = await db.query<{ there: boolean }>(
    `select exists (select from plan_hours where hour >= $1::timestamptz and hour < $2::timestamptz) as there`,
    [toTimestamp(startMs), toTimestamp(endMs)],
  )
  return rows[0]?.there === true
}

/** Holds the covered charges of one hour against the meters, all slots together; at most `limit` that differ. */
export async function comparePlanHour(
  db: Queryable,
  hourMs: number,
  limit: number,
): Promise<
  { organizationId: string; periodStartMs: number; charged: MeteredSums | null; metered: MeteredSums | null }[]
> {
  const rows = await db.query<{
    organization_id: string
    period_start: Date
    charged: string[] | null
    metered: string[] | null
  }>(
    `select organization_id, period_start, to_json(charged) as charged, to_json(metered) as metered from (
       select organization_id, plan_period as period_start, count(*)::bigint as charges,
         array[sum(plan_input_tokens), sum(plan_output_tokens), sum(list_microcents)]::bigint[]::text[] as charged
       from charges where admitted_at >= $1::timestamptz and admitted_at < $2::timestamptz and plan_period is not null
       group by 1, 2
     ) c full join (
       select organization_id, period_start, sum(requests)::bigint as requests,
         array[sum(input_tokens), sum(output_tokens), sum(list_microcents)]::bigint[]::text[] as metered
       from plan_hours where hour = $1::timestamptz group by 1, 2
     ) m using (organization_id, period_start)
     where charged is distinct from metered or charges is distinct from requests limit $3::integer`,
    [toTimestamp(hourMs), toTimestamp(hourMs + HOUR_MS), limit],
  )
  return rows.map((row) => ({
    organizationId: row.organization_id,
    periodStartMs: row.period_start.getTime(),
    charged: toMetered(row.charged),
    metered: toMetered(row.metered),
  }))
}

function toMetered(texts: readonly string[] | null): MeteredSums | null {
  if (texts === null) return null
  const [input = '0', output = '0', list = '0'] = texts
  return [BigInt(input), BigInt(output), BigInt(list)]
}

function fromRow(row: SubscriptionRow): Subscription {
  return {
    planKey: row.plan,
    status: row.status,
    periodStartMs: row.period_start.getTime(),
    periodEndMs: row.period_end.getTime(),
    cancelAtPeriodEnd: row.cancel_at_period_end,
    ...(row.price === null ? {} : { paymentPrice: row.price }),
    ...(row.renewal_until === null ? {} : { renewalUntilMs: row.renewal_until.getTime() }),
    ...(row.carried_start === null || row.carried_until === null
      ? {}
      : { carriedMeter: { startMs: row.carried_start.getTime(), untilMs: row.carried_until.getTime() } }),
  }
}
