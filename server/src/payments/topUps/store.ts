/** Every query on payments and on the customers of payment providers. */

import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { CheckoutFacts, Payment, PaymentKind, PaymentProviderName, PaymentState } from '../provider/payment.ts'
import type { RecentTopUps, TopUpCaller } from './hourly.ts'

interface PaymentRow {
  readonly id: string
  readonly organization_id: string
  readonly provider: PaymentProviderName
  readonly kind: PaymentKind
  readonly amount_cents: bigint
  readonly reversed_cents: bigint
  readonly state: PaymentState
  readonly reason: string | null
  readonly checkout: string | null
  readonly checkout_url: string | null
  readonly receipt_url: string | null
  readonly is_replaced: boolean
  readonly created_at: Date
  readonly paid_at: Date | null
}

const COLUMNS =
  'id, organization_id, provider, kind, amount_cents, reversed_cents, state, reason, checkout, checkout_url, receipt_url, is_replaced, created_at, paid_at'

/** The SQL that is true when the organization of a payment is deleted. */
const IS_DELETED = `(select deleted_at is not null from organizations o where o.id = payments.organization_id)`

/** Returns the payment provider's id of an organization; null where it has none. */
export async function selectCustomer(
  db: Queryable,
  organizationId: string,
  provider: PaymentProviderName,
): Promise<string | null> {
  const rows = await db.query<{ customer: string }>(
    'select customer from payment_customers where organization_id = $1::uuid and provider = $2',
    [organizationId, provider],
  )
  return rows[0]?.customer ?? null
}

/** Returns the organization of a customer; null where there is none. */
export async function selectOrganization(
  db: Queryable,
  provider: PaymentProviderName,
  customer: string,
): Promise<string | null> {
  const rows = await db.query<{ organization_id: string }>(
    'select organization_id from payment_customers where provider = $1 and customer = $2',
    [provider, customer],
  )
  return rows[0]?.organization_id ?? null
}

/** Inserts the payment provider's id of an organization. Does nothing where one is there. */
export async function insertCustomer(
  db: Queryable,
  organizationId: string,
  provider: PaymentProviderName,
  customer: string,
  atMs: number,
): Promise<void> {
  await db.query(
    `insert into payment_customers (organization_id, provider, customer, created_at)
     values ($1::uuid, $2, $3, $4::timestamptz) on conflict do nothing`,
    [organizationId, provider, customer, toTimestamp(atMs)],
  )
}

/** Notes that a portal is opened now. False: `most` were opened since `afterMs`. */
export async function updatePortals(
  db: Queryable,
  organizationId: string,
  provider: PaymentProviderName,
  { nowMs, afterMs, most }: { readonly nowMs: number; readonly afterMs: number; readonly most: number },
): Promise<boolean> {
  const recent = 'array(select opened from unnest(portals_at) opened where opened > $4::timestamptz)'
  const rows = await db.query(
    `update payment_customers set portals_at = ${recent} || $3::timestamptz
     where organization_id = $1::uuid and provider = $2 and cardinality(${recent}) < $5::integer returning organization_id`,
    [organizationId, provider, toTimestamp(nowMs), toTimestamp(afterMs), most],
  )
  return rows.length === 1
}

/** Returns when portals of an organization were opened, the newest first. Some may be older than an hour. */
export async function selectPortals(db: Queryable, organizationId: string, provider: string): Promise<number[]> {
  const opened = await db.query<{ at: Date }>(
    `select at from payment_customers, unnest(portals_at) at where organization_id = $1::uuid and provider = $2 order by at desc`,
    [organizationId, provider],
  )
  return opened.map(instantOf)
}

/** Locks the customer of an organization until the end of the transaction: of several new checkouts one is the last. */
export async function lockCustomer(tx: Transaction, organizationId: string, provider: string): Promise<void> {
  await tx.query('select 1 from payment_customers where organization_id = $1::uuid and provider = $2 for update', [
    organizationId,
    provider,
  ])
}

export type NewPayment = Pick<
  Payment,
  'id' | 'organizationId' | 'provider' | 'kind' | 'amountCents' | 'createdAtMs'
> & {
  /** True when its link is sent to mend auto-pay. */
  readonly isMending: boolean
  /** Null: nobody has asked for it. */
  readonly caller: TopUpCaller | null
}

/**
 * Returns when the top-ups of an organization were begun that are of the same sort as a new one and that have ids above one, so were made after
 * an instant. Those of admins, those of other callers, and the links that mend auto-pay are the sorts.
 */
export async function selectTopUpsAfter(
  db: Queryable,
  { organizationId, isMending, caller }: Pick<NewPayment, 'organizationId' | 'isMending' | 'caller'>,
  id: string,
): Promise<RecentTopUps> {
  const rows = await db.query<{ at: Date; is_own: boolean }>(
    `select created_at as at, caller is not distinct from $3::uuid as is_own from payments
     where organization_id = $1::uuid and id > $2::uuid and kind = 'top_up' and is_mending = $4::boolean and is_by_admin = $5::boolean
     order by id desc`,
    [organizationId, id, caller?.id ?? null, isMending, caller?.isAdmin === true],
  )
  return { ofCaller: rows.filter((row) => row.is_own).map(instantOf), ofAll: rows.map(instantOf) }
}

const instantOf = ({ at }: { readonly at: Date }): number => at.getTime()

/**
 * Inserts a payment whose checkout is being opened; `dueAtMs` is when that counts as failed. False: its organization is deleted, and is
 * not before the payment is there to be closed.
 */
export async function insertPayment(tx: Transaction, payment: NewPayment, dueAtMs: number): Promise<boolean> {
  const rows = await tx.query(
    `insert into payments (id, organization_id, provider, kind, amount_cents, state, created_at, due_at, is_mending, caller, is_by_admin)
     select $1::uuid, o.id, $3, $4, $5::bigint, 'opening', $6::timestamptz, $7::timestamptz, $8::boolean, $9::uuid, $10::boolean
     from organizations o where o.id = $2::uuid and o.deleted_at is null for share returning id`,
    [
      payment.id,
      payment.organizationId,
      payment.provider,
      payment.kind,
      payment.amountCents,
      toTimestamp(payment.createdAtMs),
      toTimestamp(dueAtMs),
      payment.isMending,
      payment.caller?.id ?? null,
      payment.caller?.isAdmin === true,
    ],
  )
  return rows.length === 1
}

/** Gives a payment that is being opened its checkout. Null: it has failed in between, or its organization was deleted. */
export async function updateOpened(
  tx: Transaction,
  id: string,
  checkout: { readonly id: string; readonly url: string },
  dueAtMs: number,
): Promise<Payment | null> {
  const rows = await tx.query<PaymentRow>(
    `update payments set state = 'open', checkout = $2, checkout_url = $3, due_at = $4::timestamptz
     where id = $1::uuid and state = 'opening' and not ${IS_DELETED} returning ${COLUMNS}`,
    [id, checkout.id, checkout.url, toTimestamp(dueAtMs)],
  )
  return rows[0] === undefined ? null : fromRow(rows[0])
}

/**
 * Marks the other open checkouts of an organization and kind as replaced, and due now; returns their payments' ids. Links that mend auto-pay
 * replace each other, and nothing else replaces them.
 */
export async function markReplaced(tx: Transaction, by: Payment, nowMs: number): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `update payments set is_replaced = true, due_at = $5::timestamptz
     where organization_id = $1::uuid and provider = $2 and kind = $3 and id <> $4::uuid and state = 'open'
       and is_mending = (select is_mending from payments where id = $4::uuid)
     returning id`,
    [by.organizationId, by.provider, by.kind, by.id, toTimestamp(nowMs)],
  )
  return rows.map(({ id }) => id)
}

/** Marks a payment that is still being opened as failed. */
export async function markNotOpened(db: Queryable, id: string, reason: string): Promise<void> {
  await db.query(
    `update payments set state = 'failed', reason = $2, due_at = null where id = $1::uuid and state = 'opening'`,
    [id, reason],
  )
}

/**
 * Takes the lease of a payment, whoever has it, by its id or by its checkout's. `dueAtMs` is when it is looked at again should
 * nothing come of this look. Null: there is no such payment. `isForDeleted`: its organization is deleted.
 */
export async function leasePayment(
  db: Queryable,
  provider: PaymentProviderName,
  by: { readonly id: string } | { readonly checkout: string },
  lease: string,
  dueAtMs: number,
): Promise<(Payment & { readonly isForDeleted: boolean }) | null> {
  const [column, value] = 'id' in by ? ['id = $2::uuid', by.id] : ['checkout = $2', by.checkout]
  const rows = await db.query<PaymentRow & { readonly is_deleted: boolean }>(
    `update payments set lease = $3::uuid, due_at = case when state in ('opening', 'open', 'processing') then $4::timestamptz end
     where provider = $1 and ${column} returning ${COLUMNS}, ${IS_DELETED} as is_deleted`,
    [provider, value, lease, toTimestamp(dueAtMs)],
  )
  const [row] = rows
  return row === undefined ? null : { ...fromRow(row), isForDeleted: row.is_deleted }
}

/** The tables of which rows are retrieved when they are due, and their keys. */
const DUE_TABLES = {
  payments: 'id',
  subscription_checkouts: 'id',
  payment_subscriptions: 'subscription',
  payment_reversals: 'reversal',
} as const

export type DueTable = keyof typeof DUE_TABLES

/**
 * Claims rows that are due, at most `limit`, those that wait longest: makes them due again at `untilMs`, so that no other process takes
 * them before. Returns their keys.
 */
export async function claimDue(
  db: Queryable,
  table: DueTable,
  provider: PaymentProviderName,
  at: { readonly nowMs: number; readonly untilMs: number },
  limit: number,
): Promise<string[]> {
  const key = DUE_TABLES[table]
  const rows = await db.query<{ key: string }>(
    `with due as (
       select ${key}, provider from ${table} where due_at <= $2::timestamptz and provider = $1
       order by due_at limit $4::integer for update skip locked)
     update ${table} t set due_at = $3::timestamptz from due
     where t.${key} = due.${key} and t.provider = due.provider returning t.${key}::text as key`,
    [provider, toTimestamp(at.nowMs), toTimestamp(at.untilMs), limit],
  )
  return rows.map((row) => row.key)
}

/** Locks a payment until the end of the transaction, where the lease is still the last. False: another retrieval was begun since. */
export async function lockLeased(tx: Transaction, id: string, lease: string): Promise<boolean> {
  const rows = await tx.query('select 1 from payments where id = $1::uuid and lease = $2::uuid for update', [id, lease])
  return rows.length === 1
}

/** Writes down what was retrieved of a payment that is locked. False: the payment is paid already, which nothing changes. */
export async function updateRetrieved(
  tx: Transaction,
  id: string,
  facts: CheckoutFacts,
  at: { readonly nowMs: number; readonly dueAtMs: number | null },
): Promise<boolean> {
  const paid = facts.state === 'paid' ? facts : null
  const rows = await tx.query(
    `update payments set state = $2, reason = $3, payment = $4, receipt_url = case when not ${IS_DELETED} then $5 end,
       due_at = $6::timestamptz,
       amount_cents = coalesce($7::bigint, amount_cents), paid_at = $8::timestamptz, gross_cents = $9::bigint
     where id = $1::uuid and state <> 'paid' returning id`,
    [
      id,
      facts.state,
      'reason' in facts ? facts.reason : null,
      paid?.payment ?? null,
      paid?.receiptUrl ?? null,
      at.dueAtMs === null ? null : toTimestamp(at.dueAtMs),
      paid?.amountCents ?? null,
      paid === null ? null : toTimestamp(at.nowMs),
      paid?.grossCents ?? null,
    ],
  )
  return rows.length === 1
}

/** Returns payments, the newest first; of one organization, or of all where that is null. */
export async function selectPayments(
  db: Queryable,
  organizationId: string | null,
  beforeId: string | null,
  limit: number,
): Promise<Payment[]> {
  const rows = await db.query<PaymentRow>(
    `select ${COLUMNS} from payments
     where ($1::uuid is null or organization_id = $1::uuid) and ($2::uuid is null or id < $2::uuid)
     order by id desc limit $3::integer`,
    [organizationId, beforeId, limit],
  )
  return rows.map(fromRow)
}

/** Returns a payment; null where there is none of this id. `organizationId`: of this organization alone; null: of any. */
export async function selectPayment(db: Queryable, organizationId: string | null, id: string): Promise<Payment | null> {
  const rows = await db.query<PaymentRow>(
    `select ${COLUMNS} from payments where ($1::uuid is null or organization_id = $1::uuid) and id = $2::uuid`,
    [organizationId, id],
  )
  return rows[0] === undefined ? null : fromRow(rows[0])
}

/** Returns whether the effect of a callback was committed before. */
export async function hasCallback(db: Queryable, provider: PaymentProviderName, event: string): Promise<boolean> {
  const rows = await db.query('select 1 from payment_callbacks where provider = $1 and event = $2', [provider, event])
  return rows.length === 1
}

/** Stores a callback in the transaction of its effect. */
export async function insertCallback(
  tx: Transaction,
  provider: PaymentProviderName,
  event: string,
  atMs: number,
): Promise<void> {
  await tx.query(
    `insert into payment_callbacks (provider, event, applied_at) values ($1, $2, $3::timestamptz) on conflict do nothing`,
    [provider, event, toTimestamp(atMs)],
  )
}

/** Deletes callbacks that were applied before an instant. */
export async function deleteCallbacksBefore(db: Queryable, beforeMs: number): Promise<void> {
  await db.query('delete from payment_callbacks where applied_at < $1::timestamptz', [toTimestamp(beforeMs)])
}

function fromRow(row: PaymentRow): Payment {
  return {
    id: row.id,
    organizationId: row.organization_id,
    provider: row.provider,
    kind: row.kind,
    amountCents: Number(row.amount_cents),
    reversedCents: Number(row.reversed_cents),
    state: row.state,
    reason: row.reason,
    checkout: row.checkout,
    checkoutUrl: row.checkout_url,
    receiptUrl: row.receipt_url,
    isReplaced: row.is_replaced,
    createdAtMs: row.created_at.getTime(),
    paidAtMs: row.paid_at?.getTime() ?? null,
  }
}
