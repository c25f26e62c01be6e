/** Every query on subscriptions, and the reads of plan meters. What is posted to the meters: `money/store.ts`. */

import { arrayLiteral, type Queryable } from '../../io/postgres/database.ts'
import { HOUR_MS, toTimestamp } from '../../kernel/time.ts'
import { type PlanState, WEEK_MS } from './gate.ts'
import type { Subscription } from './subscription.ts'

interface SubscriptionRow {
  readonly organization_id: string
  readonly plan: string
  readonly status: string
  readonly period_start: Date
  readonly period_end: Date
  readonly cancel_at_period_end: boolean
}

const COLUMNS = 'organization_id, plan, status, period_start, period_end, cancel_at_period_end'

/** The subscription of an organization; null where it never had one. */
export async function selectSubscription(db: Queryable, organizationId: string): Promise<Subscription | null> {
  const rows = await db.query<SubscriptionRow>(
    `select ${COLUMNS} from subscriptions where organization_id = $1::uuid`,
    [organizationId],
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
  await db.query(
    `insert into subscriptions (${COLUMNS}, changed_at)
     values ($1::uuid, $2, $3, $4::timestamptz, $5::timestamptz, $6::boolean, $7::timestamptz)
     on conflict (organization_id) do update set plan = excluded.plan, status = excluded.status,
       period_start = excluded.period_start, period_end = excluded.period_end,
       cancel_at_period_end = excluded.cancel_at_period_end, changed_at = excluded.changed_at`,
    [
      organizationId,
      subscription.planKey,
      subscription.status,
      toTimestamp(subscription.periodStartMs),
      toTimestamp(subscription.periodEndMs),
      subscription.cancelAtPeriodEnd,
      toTimestamp(atMs),
    ],
  )
}

/**
 * Subscriptions with their meters, every charge that was posted counted in, by organization; those that never had one are
 * left out. Of the week an hour counts until all of it is more than 7 days ago.
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
     from (select ${COLUMNS} from subscriptions where organization_id = any($1::text::uuid[])) s
     cross join lateral (
       select coalesce(sum(input_tokens), 0)::bigint as input, coalesce(sum(output_tokens), 0)::bigint as output,
         coalesce(sum(list_microcents), 0)::bigint as list
       from plan_periods where organization_id = s.organization_id and period_start = s.period_start) p
     cross join lateral (
       select coalesce(sum(input_tokens + output_tokens), 0)::bigint as weekly,
         min(hour) filter (where input_tokens + output_tokens > 0) as oldest
       from plan_hours where organization_id = s.organization_id and hour >= $2::timestamptz) w`,
    [arrayLiteral(organizationIds), toTimestamp(Math.floor(nowMs / HOUR_MS) * HOUR_MS - WEEK_MS)],
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

function fromRow(row: SubscriptionRow): Subscription {
  return {
    planKey: row.plan,
    status: row.status,
    periodStartMs: row.period_start.getTime(),
    periodEndMs: row.period_end.getTime(),
    cancelAtPeriodEnd: row.cancel_at_period_end,
  }
}
