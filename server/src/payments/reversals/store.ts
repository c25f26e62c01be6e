/** Every query on refunds, disputes, and the movements of payments. */

import { arrayLiteral, type Queryable, type Transaction } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { PaymentProviderName } from '../provider/payment.ts'
import type { Movement, ReversalFacts, ReversalState } from '../provider/reversal.ts'

/** A reversal that a lease was taken of. */
export interface LeasedReversal {
  readonly organizationId: string
  /** Our id of the payment that is reversed. Null where a payment of a subscription is: then `subscription` names it. */
  readonly paymentId: string | null
  readonly subscription: string | null
  /** Null: it was never retrieved under a lease. */
  readonly state: ReversalState | null
  readonly changedAtMs: number
}

/** Takes the lease of a reversal, whoever has it. Null: it is not known. */
export async function leaseReversal(
  db: Queryable,
  provider: PaymentProviderName,
  reversal: string,
  lease: string,
  dueAtMs: number,
): Promise<LeasedReversal | null> {
  const rows = await db.query<{
    organization_id: string
    payment_id: string | null
    subscription: string | null
    state: ReversalState | null
    changed_at: Date
  }>(
    `update payment_reversals set lease = $3::uuid, due_at = $4::timestamptz
     where provider = $1 and reversal = $2 returning organization_id, payment_id, subscription, state, changed_at`,
    [provider, reversal, lease, toTimestamp(dueAtMs)],
  )
  const row = rows[0]
  return row === undefined
    ? null
    : {
        organizationId: row.organization_id,
        paymentId: row.payment_id,
        subscription: row.subscription,
        state: row.state,
        changedAtMs: row.changed_at.getTime(),
      }
}

/** The owner of the payment that a reversal takes money back from. */
export interface ReversalOwner {
  readonly organizationId: string
  readonly paymentId: string | null
  readonly subscription: string | null
}

/** Inserts a reversal that was seen for the first time, due now. Does nothing where it is known. */
export async function insertReversal(
  db: Queryable,
  provider: PaymentProviderName,
  facts: ReversalFacts,
  owner: ReversalOwner,
  nowMs: number,
): Promise<void> {
  await db.query(
    `insert into payment_reversals (provider, reversal, organization_id, payment_id, subscription, created_at, changed_at, due_at)
     values ($1, $2, $3::uuid, $4::uuid, $5, $6::timestamptz, $7::timestamptz, $7::timestamptz) on conflict do nothing`,
    [
      provider,
      facts.reversal,
      owner.organizationId,
      owner.paymentId,
      owner.subscription,
      toTimestamp(facts.createdAtMs),
      toTimestamp(nowMs),
    ],
  )
}

/** Writes down what was retrieved of a reversal under a lease. False: another retrieval was begun since. */
export async function updateReversal(
  tx: Transaction,
  provider: PaymentProviderName,
  lease: string,
  { reversal, state }: ReversalFacts,
  at: { readonly changedAtMs: number; readonly dueAtMs: number | null },
): Promise<boolean> {
  const rows = await tx.query(
    `update payment_reversals set state = $4, changed_at = $5::timestamptz, due_at = $6::timestamptz
     where provider = $1 and reversal = $2 and lease = $3::uuid returning reversal`,
    [
      provider,
      reversal,
      lease,
      state,
      toTimestamp(at.changedAtMs),
      at.dueAtMs === null ? null : toTimestamp(at.dueAtMs),
    ],
  )
  return rows.length === 1
}

/** A paid payment, as far as refunds and disputes change it. US cents. */
export interface ReversiblePayment {
  readonly id: string
  readonly organizationId: string
  readonly provider: PaymentProviderName
  /** The payment provider's id of it. */
  readonly payment: string
  /** Of credit, and with tax. */
  readonly amountCents: number
  readonly grossCents: number
  /** The credit that was taken back so far. */
  readonly reversedCents: number
  /** A refund that the operator wants, and its amount with tax; null: none is open. */
  readonly request: string | null
  readonly requestCents: number
}

interface ReversibleRow {
  readonly id: string
  readonly organization_id: string
  readonly provider: PaymentProviderName
  readonly payment: string
  readonly amount_cents: bigint
  readonly gross_cents: bigint
  readonly reversed_cents: bigint
  readonly refund_request: string | null
  readonly refund_request_cents: bigint | null
}

const REVERSIBLE = `id, organization_id, provider, payment, amount_cents, coalesce(gross_cents, amount_cents) as gross_cents, reversed_cents,
  refund_request, refund_request_cents`

/** Locks a payment that is paid until the end of the transaction; null where there is none. */
export async function lockPaid(tx: Transaction, id: string): Promise<ReversiblePayment | null> {
  const rows = await tx.query<ReversibleRow>(
    `select ${REVERSIBLE} from payments where id = $1::uuid and state = 'paid' for update`,
    [id],
  )
  return rows[0] === undefined ? null : fromReversibleRow(rows[0])
}

/** Returns a paid payment by the payment provider's id of it; null where there is none. */
export async function selectPaid(
  db: Queryable,
  provider: PaymentProviderName,
  payment: string,
): Promise<ReversiblePayment | null> {
  const rows = await db.query<ReversibleRow>(
    `select ${REVERSIBLE} from payments where provider = $1 and payment = $2 and state = 'paid'`,
    [provider, payment],
  )
  return rows[0] === undefined ? null : fromReversibleRow(rows[0])
}

/** Returns a paid payment by our id of it; null where there is none. */
export async function selectPaidById(
  db: Queryable,
  provider: PaymentProviderName,
  id: string,
): Promise<ReversiblePayment | null> {
  const rows = await db.query<ReversibleRow>(
    `select ${REVERSIBLE} from payments where provider = $1 and id = $2::uuid and state = 'paid'`,
    [provider, id],
  )
  return rows[0] === undefined ? null : fromReversibleRow(rows[0])
}

/** Returns the sum of a payment's movements in US cents with tax: below 0 where it was taken back. */
export async function sumMovements(tx: Transaction, paymentId: string): Promise<number> {
  const rows = await tx.query<{ sum: bigint }>(
    'select coalesce(sum(amount_cents), 0)::bigint as sum from payment_movements where payment_id = $1::uuid',
    [paymentId],
  )
  return Number(rows[0]?.sum ?? 0n)
}

/** Notes a movement of a payment that is locked. False: it was noted before. */
export async function insertMovement(
  tx: Transaction,
  provider: PaymentProviderName,
  paymentId: string,
  movement: Movement,
  atMs: number,
): Promise<boolean> {
  const rows = await tx.query(
    `insert into payment_movements (provider, movement, payment_id, amount_cents, posted_at)
     values ($1, $2, $3::uuid, $4::bigint, $5::timestamptz) on conflict do nothing returning movement`,
    [provider, movement.id, paymentId, movement.amountCents, toTimestamp(atMs)],
  )
  return rows.length === 1
}

/** Writes down how much of the credit of a locked payment was taken back. */
export async function updateReversed(tx: Transaction, paymentId: string, reversedCents: number): Promise<void> {
  await tx.query('update payments set reversed_cents = $2::bigint where id = $1::uuid', [paymentId, reversedCents])
}

/** Begins the refund of a locked payment. */
export async function openRefundRequest(
  tx: Transaction,
  paymentId: string,
  request: string,
  cents: number,
): Promise<void> {
  await tx.query(
    'update payments set refund_request = $2::uuid, refund_request_cents = $3::bigint where id = $1::uuid',
    [paymentId, request, cents],
  )
}

/** Ends the request of a refund, whose outcome is known now. */
export async function closeRefundRequest(db: Queryable, paymentId: string, request: string): Promise<void> {
  await db.query(
    `update payments set refund_request = null, refund_request_cents = null
     where id = $1::uuid and refund_request = $2::uuid`,
    [paymentId, request],
  )
}

/** Returns the payments with an open request of a refund, at most `limit`, in the order of their ids. */
export async function selectRefundRequests(
  db: Queryable,
  provider: PaymentProviderName,
  limit: number,
): Promise<ReversiblePayment[]> {
  const rows = await db.query<ReversibleRow>(
    `select ${REVERSIBLE} from payments where refund_request is not null and provider = $1 order by id limit $2::integer`,
    [provider, limit],
  )
  return rows.map(fromReversibleRow)
}

/** A refund or a dispute that is here. */
export interface KnownReversal {
  readonly organizationId: string
  /** Null: it was never retrieved under a lease. */
  readonly state: ReversalState | null
}

/** Returns reversals by their ids; those that are not known are left out. */
export async function selectReversalStates(
  db: Queryable,
  provider: PaymentProviderName,
  reversals: readonly string[],
): Promise<ReadonlyMap<string, KnownReversal>> {
  const rows = await db.query<{ reversal: string; organization_id: string; state: ReversalState | null }>(
    `select reversal, organization_id, state from payment_reversals
     where provider = $1 and reversal = any($2::text::text[])`,
    [provider, arrayLiteral(reversals)],
  )
  return new Map(rows.map((row) => [row.reversal, { organizationId: row.organization_id, state: row.state }]))
}

function fromReversibleRow(row: ReversibleRow): ReversiblePayment {
  return {
    id: row.id,
    organizationId: row.organization_id,
    provider: row.provider,
    payment: row.payment,
    amountCents: Number(row.amount_cents),
    grossCents: Number(row.gross_cents),
    reversedCents: Number(row.reversed_cents),
    request: row.refund_request,
    requestCents: Number(row.refund_request_cents ?? 0n),
  }
}
