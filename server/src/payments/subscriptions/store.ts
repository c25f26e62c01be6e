/** Every query on checkouts for subscriptions, and on the subscriptions of payment providers. */

import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { PaymentProviderName } from '../provider/payment.ts'
import { INCOMPLETE, type SubscriptionFacts, statusByPayment } from '../provider/subscriptionFacts.ts'

export interface SubscriptionCheckoutRow {
  readonly id: string
  readonly organizationId: string
  readonly state: 'opening' | 'open' | 'complete' | 'failed' | 'expired'
  readonly checkout: string | null
  readonly isReplaced: boolean
  readonly createdAtMs: number
}

const CHECKOUT_COLUMNS = 'id, organization_id, state, checkout, is_replaced, created_at'

interface RawCheckout {
  readonly id: string
  readonly organization_id: string
  readonly state: SubscriptionCheckoutRow['state']
  readonly checkout: string | null
  readonly is_replaced: boolean
  readonly created_at: Date
}

/** Returns when the checkouts of an organization were begun whose ids are above one, so were made after an instant; the newest first. */
export async function selectSubscriptionCheckoutsAfter(
  db: Queryable,
  organizationId: string,
  id: string,
): Promise<number[]> {
  const rows = await db.query<{ created_at: Date }>(
    'select created_at from subscription_checkouts where organization_id = $1::uuid and id > $2::uuid order by id desc',
    [organizationId, id],
  )
  return rows.map((row) => row.created_at.getTime())
}

/**
 * Inserts a checkout that is being opened; `dueAtMs` is when that counts as failed. False: its organization is deleted, and is not before
 * the checkout is there to be closed.
 */
export async function insertSubscriptionCheckout(
  tx: Transaction,
  row: { readonly id: string; readonly organizationId: string; readonly provider: PaymentProviderName },
  createdAtMs: number,
  dueAtMs: number,
): Promise<boolean> {
  const rows = await tx.query(
    `insert into subscription_checkouts (id, organization_id, provider, state, created_at, due_at)
     select $1::uuid, o.id, $3, 'opening', $4::timestamptz, $5::timestamptz
     from organizations o where o.id = $2::uuid and o.deleted_at is null for share returning id`,
    [row.id, row.organizationId, row.provider, toTimestamp(createdAtMs), toTimestamp(dueAtMs)],
  )
  return rows.length === 1
}

/** Gives a checkout that is being opened its id at the payment provider. False: it has failed in between, or its organization was deleted. */
export async function updateSubscriptionCheckoutOpened(
  tx: Transaction,
  id: string,
  checkout: string,
  dueAtMs: number,
): Promise<boolean> {
  const rows = await tx.query(
    `update subscription_checkouts set state = 'open', checkout = $2, due_at = $3::timestamptz
     where id = $1::uuid and state = 'opening' and not exists (
       select 1 from organizations o where o.id = organization_id and o.deleted_at is not null
     ) returning id`,
    [id, checkout, toTimestamp(dueAtMs)],
  )
  return rows.length === 1
}

/** Marks the other open checkouts of an organization as replaced, and due now; returns their ids. */
export async function markSubscriptionCheckoutsReplaced(
  tx: Transaction,
  organizationId: string,
  provider: PaymentProviderName,
  exceptId: string,
  nowMs: number,
): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `update subscription_checkouts set is_replaced = true, due_at = $4::timestamptz
     where organization_id = $1::uuid and provider = $2 and id <> $3::uuid and state = 'open' returning id`,
    [organizationId, provider, exceptId, toTimestamp(nowMs)],
  )
  return rows.map(({ id }) => id)
}

/** Marks a checkout that is still being opened as failed. */
export async function markSubscriptionCheckoutNotOpened(db: Queryable, id: string): Promise<void> {
  await db.query(
    `update subscription_checkouts set state = 'failed', due_at = null where id = $1::uuid and state = 'opening'`,
    [id],
  )
}

/** Writes down how a checkout is. One that has ended is left as it is. `dueAtMs` null: it has ended. */
export async function updateSubscriptionCheckout(
  db: Queryable,
  id: string,
  state: SubscriptionCheckoutRow['state'],
  dueAtMs: number | null,
): Promise<void> {
  await db.query(
    `update subscription_checkouts set state = $2, due_at = $3::timestamptz
     where id = $1::uuid and state in ('opening', 'open')`,
    [id, state, dueAtMs === null ? null : toTimestamp(dueAtMs)],
  )
}

/** Returns a checkout by its id, or by the payment provider's; null where there is none. */
export async function selectSubscriptionCheckout(
  db: Queryable,
  provider: PaymentProviderName,
  by: { readonly id: string } | { readonly checkout: string },
): Promise<SubscriptionCheckoutRow | null> {
  const [column, value] = 'id' in by ? ['id = $2::uuid', by.id] : ['checkout = $2', by.checkout]
  const rows = await db.query<RawCheckout>(
    `select ${CHECKOUT_COLUMNS} from subscription_checkouts where provider = $1 and ${column}`,
    [provider, value],
  )
  const row = rows[0]
  return row === undefined
    ? null
    : {
        id: row.id,
        organizationId: row.organization_id,
        state: row.state,
        checkout: row.checkout,
        isReplaced: row.is_replaced,
        createdAtMs: row.created_at.getTime(),
      }
}

/** Returns the ids of an organization's open checkouts. */
export async function selectOpenSubscriptionCheckouts(
  db: Queryable,
  organizationId: string,
  provider: PaymentProviderName,
): Promise<string[]> {
  const rows = await db.query<{ id: string }>(
    `select id from subscription_checkouts where organization_id = $1::uuid and provider = $2 and state = 'open'`,
    [organizationId, provider],
  )
  return rows.map(({ id }) => id)
}

/** A subscription that a lease was taken of. */
export interface LeasedSubscription {
  readonly organizationId: string
  /** Null: it was never retrieved under a lease. */
  readonly status: string | null
  readonly isSurplus: boolean
  /** Of a surplus one: its refund is done. */
  readonly isRefunded: boolean
  /** True when its organization is deleted: it is cancelled then. */
  readonly isForDeleted: boolean
}

/** Takes the lease of a subscription, whoever has it. Null: it is not known. */
export async function leaseSubscription(
  db: Queryable,
  provider: PaymentProviderName,
  subscription: string,
  lease: string,
  dueAtMs: number,
): Promise<LeasedSubscription | null> {
  const rows = await db.query<{
    organization_id: string
    status: string | null
    is_surplus: boolean
    is_refunded: boolean
    is_deleted: boolean
  }>(
    `update payment_subscriptions set lease = $3::uuid, due_at = $4::timestamptz
     where provider = $1 and subscription = $2 returning organization_id, status, is_surplus, is_refunded,
       (select deleted_at is not null from organizations o where o.id = organization_id) as is_deleted`,
    [provider, subscription, lease, toTimestamp(dueAtMs)],
  )
  const row = rows[0]
  return row === undefined
    ? null
    : {
        organizationId: row.organization_id,
        status: row.status,
        isSurplus: row.is_surplus,
        isRefunded: row.is_refunded,
        isForDeleted: row.is_deleted,
      }
}

/**
 * Inserts a subscription that was seen for the first time. Does nothing where it is known. One of an organization that is deleted is one
 * too many: nobody can use it.
 */
export async function insertSubscription(
  db: Queryable,
  provider: PaymentProviderName,
  { subscription, createdAtMs }: SubscriptionFacts,
  organizationId: string,
): Promise<void> {
  await db.query(
    `insert into payment_subscriptions (provider, subscription, organization_id, created_at, due_at, is_surplus)
     select $1, $2, o.id, $4::timestamptz, $4::timestamptz, o.deleted_at is not null
     from organizations o where o.id = $3::uuid on conflict do nothing`,
    [provider, subscription, organizationId, toTimestamp(createdAtMs)],
  )
}

/**
 * Writes down what was retrieved of a subscription under a lease. While a period is not paid, the period and the price stay those
 * before it. A surplus subscription whose refund is not done is due again at `unfinishedDueAtMs`. False: another retrieval was begun since.
 */
export async function updateSubscriptionRetrieved(
  tx: Transaction,
  provider: PaymentProviderName,
  lease: string,
  facts: SubscriptionFacts,
  {
    dueAtMs,
    unfinishedDueAtMs,
    isRefunded,
  }: { readonly dueAtMs: number | null; readonly unfinishedDueAtMs: number; readonly isRefunded: boolean },
): Promise<boolean> {
  const rows = await tx.query(
    `update payment_subscriptions set status = case when period_start is null or status = $14 then $13 else $4 end,
       price = case when $12::boolean and price is not null then price else $5 end,
       period_start = case when $12::boolean and period_start is not null then period_start else $6::timestamptz end,
       period_end = case when $12::boolean and period_end is not null then period_end else $7::timestamptz end,
       unpaid_since = case when $12::boolean then $6::timestamptz end,
       cancel_at_period_end = $8::boolean, is_refunded = is_refunded or $10::boolean,
       due_at = case when is_surplus and not (is_refunded or $10::boolean) then $11::timestamptz else $9::timestamptz end
     where provider = $1 and subscription = $2 and lease = $3::uuid returning subscription`,
    [
      provider,
      facts.subscription,
      lease,
      statusByPayment(facts, true),
      facts.price,
      toTimestamp(facts.periodStartMs),
      toTimestamp(facts.periodEndMs),
      facts.cancelAtPeriodEnd,
      dueAtMs === null ? null : toTimestamp(dueAtMs),
      isRefunded,
      toTimestamp(unfinishedDueAtMs),
      facts.unpaid === 'period',
      statusByPayment(facts, false),
      INCOMPLETE,
    ],
  )
  return rows.length === 1
}

/** A subscription of an organization that was retrieved. */
export interface ProviderSubscription {
  readonly subscription: string
  readonly status: string
  readonly price: string
  readonly periodStartMs: number
  readonly periodEndMs: number
  readonly cancelAtPeriodEnd: boolean
  readonly createdAtMs: number
  readonly isSurplus: boolean
  /** The start of a later period that is not paid, in milliseconds since the epoch: period and price are those before it. Null: all is paid. */
  readonly unpaidSinceMs: number | null
}

/** Returns the subscriptions of an organization that were retrieved, at any payment provider. */
export async function selectProviderSubscriptions(
  db: Queryable,
  organizationId: string,
): Promise<ProviderSubscription[]> {
  const rows = await db.query<{
    subscription: string
    status: string
    price: string
    period_start: Date
    period_end: Date
    cancel_at_period_end: boolean
    created_at: Date
    is_surplus: boolean
    unpaid_since: Date | null
  }>(
    `select subscription, status, price, period_start, period_end, cancel_at_period_end, created_at, is_surplus, unpaid_since
     from payment_subscriptions where organization_id = $1::uuid and status is not null order by created_at, subscription`,
    [organizationId],
  )
  return rows.map((row) => ({
    subscription: row.subscription,
    status: row.status,
    price: row.price,
    periodStartMs: row.period_start.getTime(),
    periodEndMs: row.period_end.getTime(),
    cancelAtPeriodEnd: row.cancel_at_period_end,
    createdAtMs: row.created_at.getTime(),
    isSurplus: row.is_surplus,
    unpaidSinceMs: row.unpaid_since?.getTime() ?? null,
  }))
}

/** Marks a subscription as one too many, and due now. */
export async function markSurplus(
  tx: Transaction,
  provider: PaymentProviderName,
  subscription: string,
  nowMs: number,
): Promise<void> {
  await tx.query(
    `update payment_subscriptions set is_surplus = true, due_at = $3::timestamptz
     where provider = $1 and subscription = $2`,
    [provider, subscription, toTimestamp(nowMs)],
  )
}
