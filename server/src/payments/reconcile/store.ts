/** The queries that hold payments, refunds and disputes against what a payment provider lists, and the ledger against them. */

import { arrayLiteral, type Queryable } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { PaymentProviderName, PaymentState } from '../provider/payment.ts'
import type { ProviderWindow } from '../provider/reversal.ts'

/**
 * Claims the comparison that is due, or that was last begun before `startedAtMs`, until `untilMs`. Returns the last reconciled instant;
 * undefined where nothing is to be done, or another process does it. Where an instant lies in the future, a clock was ahead: the
 * comparison is due, and the last reconciled instant is forgotten. One that is forgotten, or that never was, is `backToMs` from now on,
 * however long no comparison comes to its end.
 */
export async function claimReconciliation(
  db: Queryable,
  provider: PaymentProviderName,
  at: { readonly nowMs: number; readonly startedAtMs: number; readonly untilMs: number; readonly backToMs: number },
): Promise<number | undefined> {
  const rows = await db.query<{ reconciled_until: Date }>(
    `insert into payment_reconciliations as r (provider, begun_at, due_at, reconciled_until)
       values ($1, $2::timestamptz, $4::timestamptz, $5::timestamptz)
     on conflict (provider) do update set begun_at = excluded.begun_at, due_at = excluded.due_at,
         reconciled_until = case when r.reconciled_until <= $2::timestamptz then r.reconciled_until else excluded.reconciled_until end
       where r.due_at <= $2::timestamptz or r.begun_at is null or r.begun_at < $3::timestamptz or r.begun_at > $2::timestamptz
     returning reconciled_until`,
    [provider, ...[at.nowMs, at.startedAtMs, at.untilMs, at.backToMs].map(toTimestamp)],
  )
  return rows[0]?.reconciled_until.getTime()
}

/** Returns the last reconciled instant; null where no comparison was ever begun. */
export async function selectReconciledUntil(db: Queryable, provider: PaymentProviderName): Promise<number | null> {
  const rows = await db.query<{ reconciled_until: Date | null }>(
    'select reconciled_until from payment_reconciliations where provider = $1',
    [provider],
  )
  return rows[0]?.reconciled_until?.getTime() ?? null
}

/** Moves the last reconciled instant on; never back. */
export async function updateReconciledUntil(
  db: Queryable,
  provider: PaymentProviderName,
  untilMs: number,
): Promise<void> {
  await db.query(
    `insert into payment_reconciliations as r (provider, reconciled_until, due_at) values ($1, $2::timestamptz, $2::timestamptz)
     on conflict (provider) do update set reconciled_until = greatest(r.reconciled_until, excluded.reconciled_until)`,
    [provider, toTimestamp(untilMs)],
  )
}

/** Makes the next comparison due at an instant. */
export async function updateReconciliationDue(
  db: Queryable,
  provider: PaymentProviderName,
  dueAtMs: number,
): Promise<void> {
  await db.query('update payment_reconciliations set due_at = $2::timestamptz where provider = $1', [
    provider,
    toTimestamp(dueAtMs),
  ])
}

/** A payment as the comparison needs it. */
export interface ComparedPayment {
  readonly id: string
  readonly organizationId: string
  readonly state: PaymentState
  readonly amountCents: number
}

/** Returns payments by the payment provider's ids of their checkouts; those that are not known are left out. */
export async function selectByCheckout(
  db: Queryable,
  provider: PaymentProviderName,
  checkouts: readonly string[],
): Promise<ReadonlyMap<string, ComparedPayment>> {
  const rows = await db.query<{
    checkout: string
    id: string
    organization_id: string
    state: PaymentState
    amount_cents: bigint
  }>(
    `select checkout, id, organization_id, state, amount_cents from payments
     where provider = $1 and checkout = any($2::text::text[])`,
    [provider, arrayLiteral(checkouts)],
  )
  return new Map(
    rows.map((row) => [
      row.checkout,
      {
        id: row.id,
        organizationId: row.organization_id,
        state: row.state,
        amountCents: Number(row.amount_cents),
      },
    ]),
  )
}

/** Returns which of some checkouts are known, for credit or for subscriptions, by the payment provider's ids of them. */
export async function selectKnownCheckouts(
  db: Queryable,
  provider: PaymentProviderName,
  checkouts: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await db.query<{ checkout: string }>(
    `select checkout from payments where provider = $1 and checkout = any($2::text::text[])
     union all select checkout from subscription_checkouts where provider = $1 and checkout = any($2::text::text[])`,
    [provider, arrayLiteral(checkouts)],
  )
  return new Set(rows.map(({ checkout }) => checkout))
}

/** Returns which of some subscriptions are known, by the payment provider's ids of them. */
export async function selectKnownSubscriptions(
  db: Queryable,
  provider: PaymentProviderName,
  subscriptions: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await db.query<{ subscription: string }>(
    `select subscription from payment_subscriptions
     where provider = $1 and subscription = any($2::text::text[]) and status is not null`,
    [provider, arrayLiteral(subscriptions)],
  )
  return new Set(rows.map(({ subscription }) => subscription))
}

/** Returns which of some events were told by callbacks or listed before, and have had their effect. */
export async function selectToldEvents(
  db: Queryable,
  provider: PaymentProviderName,
  events: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await db.query<{ event: string }>(
    'select event from payment_callbacks where provider = $1 and event = any($2::text::text[])',
    [provider, arrayLiteral(events)],
  )
  return new Set(rows.map(({ event }) => event))
}

/** An object that is here, by the payment provider's id of it. */
export interface KnownObject {
  readonly object: string
  readonly organizationId: string
  readonly amountCents: number
}

/**
 * Returns where to cut a window, so that its first part has at most `most` payments that were begun here, and `most` refunds and disputes: at
 * its end where it has no more. The part is never empty.
 */
export async function selectWindowEnd(
  db: Queryable,
  provider: PaymentProviderName,
  { fromMs, untilMs }: ProviderWindow,
  most: number,
): Promise<number> {
  const rows = await db.query<{ at: Date }>(
    `(select created_at as at from payments
       where provider = $1 and created_at >= $2::timestamptz and created_at < $3::timestamptz
       order by created_at offset $4::integer limit 1)
     union all (select created_at as at from payment_reversals
       where provider = $1 and created_at >= $2::timestamptz and created_at < $3::timestamptz
       order by created_at offset $4::integer limit 1)`,
    [provider, toTimestamp(fromMs), toTimestamp(untilMs), most],
  )
  return Math.max(Math.min(untilMs, ...rows.map(({ at }) => at.getTime())), fromMs + 1)
}

/** Returns the checkouts of paid payments that were begun within a window. */
export async function selectPaidWithin(
  db: Queryable,
  provider: PaymentProviderName,
  { fromMs, untilMs }: ProviderWindow,
): Promise<KnownObject[]> {
  const rows = await db.query<{ object: string; organization_id: string; cents: bigint }>(
    `select checkout as object, organization_id, amount_cents as cents from payments
     where provider = $1 and created_at >= $2::timestamptz and created_at < $3::timestamptz and state = 'paid'
       and checkout is not null`,
    [provider, toTimestamp(fromMs), toTimestamp(untilMs)],
  )
  return rows.map(toKnown)
}

/** Returns the refunds and disputes that were made within a window. */
export async function selectReversalsWithin(
  db: Queryable,
  provider: PaymentProviderName,
  { fromMs, untilMs }: ProviderWindow,
): Promise<KnownObject[]> {
  const rows = await db.query<{ object: string; organization_id: string; cents: bigint }>(
    `select reversal as object, organization_id, 0::bigint as cents from payment_reversals
     where provider = $1 and created_at >= $2::timestamptz and created_at < $3::timestamptz`,
    [provider, toTimestamp(fromMs), toTimestamp(untilMs)],
  )
  return rows.map(toKnown)
}

/**
 * Returns the paid payments that were begun within a window and of which the ledger has another sum than their credit less that which
 * was taken back, with the difference.
 */
export async function selectMisposted(
  db: Queryable,
  provider: PaymentProviderName,
  { fromMs, untilMs }: ProviderWindow,
): Promise<KnownObject[]> {
  const rows = await db.query<{ object: string; organization_id: string; cents: bigint }>(
    `select p.id::text as object, p.organization_id, (p.amount_cents - p.reversed_cents - e.sum / 1000000)::bigint as cents
     from payments p cross join lateral (
       select coalesce(sum(l.amount_microcents), 0) as sum from (
         select 'payment:' || p.provider || ':' || p.payment as source
         union all select kind || ':' || m.provider || ':' || m.movement
           from payment_movements m cross join (values ('payment_refund'), ('payment_dispute')) k (kind)
           where m.payment_id = p.id) s
       join ledger_entries l on l.source = s.source) e
     where p.provider = $1 and p.created_at >= $2::timestamptz and p.created_at < $3::timestamptz and p.state = 'paid'
       and e.sum <> (p.amount_cents - p.reversed_cents) * 1000000`,
    [provider, toTimestamp(fromMs), toTimestamp(untilMs)],
  )
  return rows.map(toKnown)
}

function toKnown(row: { object: string; organization_id: string; cents: bigint }): KnownObject {
  return { object: row.object, organizationId: row.organization_id, amountCents: Number(row.cents) }
}
