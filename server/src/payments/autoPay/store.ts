/** Every query on `auto_pay`, and on the payments that auto-pay makes. The account is locked before either. */

import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { AutoPaymentFacts } from '../provider/autoPayment.ts'
import type { PaymentProviderName, PaymentState } from '../provider/payment.ts'
import type { AutoPay } from './autoPay.ts'

interface AutoPayRow {
  readonly is_enabled: boolean
  readonly threshold_cents: bigint | null
  readonly amount_cents: bigint | null
  readonly attempts_a_day: number
  readonly declines: number
  readonly failed_at: Date | null
  readonly failure: string | null
  readonly is_told: boolean
  readonly is_suspended: boolean
  readonly listed_until: Date | null
}

const COLUMNS =
  'is_enabled, threshold_cents, amount_cents, attempts_a_day, declines, failed_at, failure, is_told, is_suspended, listed_until'

/** Returns what an organization has agreed to; null where it never did. */
export async function selectAgreement(db: Queryable, organizationId: string): Promise<AutoPay | null> {
  const rows = await db.query<AutoPayRow>(`select ${COLUMNS} from auto_pay where organization_id = $1::uuid`, [
    organizationId,
  ])
  return fromRow(rows[0])
}

/** Takes the lease, whoever has it. Null: the organization never agreed to anything. */
export async function leaseAgreement(tx: Transaction, organizationId: string, lease: string): Promise<AutoPay | null> {
  const rows = await tx.query<AutoPayRow>(
    `update auto_pay set lease = $2::uuid where organization_id = $1::uuid returning ${COLUMNS}`,
    [organizationId, lease],
  )
  return fromRow(rows[0])
}

/** Locks the agreement where the lease is still the last. Null: another process took the job over. */
export async function lockAgreement(tx: Transaction, organizationId: string, lease: string): Promise<AutoPay | null> {
  const rows = await tx.query<AutoPayRow>(
    `select ${COLUMNS} from auto_pay where organization_id = $1::uuid and lease = $2::uuid for update`,
    [organizationId, lease],
  )
  return fromRow(rows[0])
}

/** Returns whether an organization is deleted. Its account is locked, so that it is not deleted in between. */
export async function selectIsDeleted(tx: Transaction, organizationId: string): Promise<boolean> {
  const rows = await tx.query('select 1 from organizations where id = $1::uuid and deleted_at is not null', [
    organizationId,
  ])
  return rows.length > 0
}

/** Switches auto-pay off for good: no saved payment method switches it on again. Null: the organization never agreed to anything. */
export async function updateEnded(tx: Transaction, organizationId: string): Promise<AutoPay | null> {
  const rows = await tx.query<AutoPayRow>(
    `update auto_pay set is_enabled = false, is_suspended = false, declines = 0, failed_at = null, failure = null, is_told = false
     where organization_id = $1::uuid returning ${COLUMNS}`,
    [organizationId],
  )
  return fromRow(rows[0])
}

/** Writes what an organization agrees to, and returns it. Earlier failures are forgotten unless it `keepsFailures`. */
export async function upsertAgreement(
  tx: Transaction,
  organizationId: string,
  agreed: Pick<AutoPay, 'isEnabled' | 'thresholdCents' | 'amountCents' | 'attemptsADay'>,
  keepsFailures: boolean,
): Promise<AutoPay | null> {
  const rows = await tx.query<AutoPayRow>(
    `insert into auto_pay (organization_id, is_enabled, threshold_cents, amount_cents, attempts_a_day)
     values ($1::uuid, $2::boolean, $3::bigint, $4::bigint, $5::integer)
     on conflict (organization_id) do update set is_enabled = excluded.is_enabled,
       threshold_cents = excluded.threshold_cents, amount_cents = excluded.amount_cents,
       attempts_a_day = excluded.attempts_a_day, is_suspended = false,
       declines = case when $6::boolean then auto_pay.declines else 0 end,
       failed_at = case when $6::boolean then auto_pay.failed_at end,
       failure = case when $6::boolean then auto_pay.failure end, is_told = auto_pay.is_told and $6::boolean
     where not $6::boolean or (auto_pay.is_enabled, auto_pay.threshold_cents, auto_pay.amount_cents, auto_pay.attempts_a_day)
       is distinct from (excluded.is_enabled, excluded.threshold_cents, excluded.amount_cents, excluded.attempts_a_day)
     returning ${COLUMNS}`,
    [organizationId, agreed.isEnabled, agreed.thresholdCents, agreed.amountCents, agreed.attemptsADay, keepsFailures],
  )
  // Terms that are there already are not written again.
  return rows[0] === undefined ? selectAgreement(tx, organizationId) : fromRow(rows[0])
}

/** Forgets failures, and switches on what they switched off. Null: the organization never agreed to anything. */
export async function updateMended(tx: Transaction, organizationId: string): Promise<AutoPay | null> {
  const rows = await tx.query<AutoPayRow>(
    `update auto_pay set is_enabled = is_enabled or is_suspended, is_suspended = false, declines = 0, failed_at = null,
       failure = null, is_told = false
     where organization_id = $1::uuid returning ${COLUMNS}`,
    [organizationId],
  )
  return fromRow(rows[0])
}

/** Writes a success. `begunAtMs`: when its payment was begun, in milliseconds since the epoch; a failure since then stays. Null: there is none. */
export async function updateSucceeded(
  tx: Transaction,
  organizationId: string,
  begunAtMs: number | null,
): Promise<void> {
  await tx.query(
    `update auto_pay set declines = 0, failed_at = null, failure = null, is_told = false
     where organization_id = $1::uuid and ($2::timestamptz is null or failed_at < $2::timestamptz)`,
    [organizationId, begunAtMs === null ? null : toTimestamp(begunAtMs)],
  )
}

/** Writes a failure. `suspends`: it switches auto-pay off. */
export async function updateFailed(
  tx: Transaction,
  organizationId: string,
  failed: {
    readonly reason: string
    readonly atMs: number
    readonly declines: number
    readonly isTold: boolean
    readonly suspends: boolean
  },
): Promise<void> {
  await tx.query(
    `update auto_pay set declines = $2::integer, failed_at = $3::timestamptz, failure = $4, is_told = $5::boolean,
       is_enabled = is_enabled and not $6::boolean, is_suspended = is_suspended or (is_enabled and $6::boolean)
     where organization_id = $1::uuid`,
    [organizationId, failed.declines, toTimestamp(failed.atMs), failed.reason, failed.isTold, failed.suspends],
  )
}

/** Notes up to when every payment in the payment provider's list is known. */
export async function updateListed(tx: Transaction, organizationId: string, untilMs: number): Promise<void> {
  await tx.query('update auto_pay set listed_until = $2::timestamptz where organization_id = $1::uuid', [
    organizationId,
    toTimestamp(untilMs),
  ])
}

/** A payment that auto-pay has begun. */
export interface AutoPayAttempt {
  /** A UUIDv7; the idempotency key at the payment provider is made of it. */
  readonly id: string
  readonly organizationId: string
  readonly amountCents: number
  /** The payment provider's id of the saved payment method. */
  readonly method: string
  readonly createdAtMs: number
}

interface AttemptRow {
  readonly id: string
  readonly organization_id: string
  readonly amount_cents: bigint
  readonly method: string | null
  readonly created_at: Date
}

/** Returns the payment of an organization that is under way; null where there is none. */
export async function selectOpenAttempt(db: Queryable, organizationId: string): Promise<AutoPayAttempt | null> {
  const rows = await db.query<AttemptRow>(
    `select id, organization_id, amount_cents, method, created_at from payments
     where organization_id = $1::uuid and kind = 'auto_pay' and state in ('opening', 'processing')`,
    [organizationId],
  )
  const row = rows[0]
  return row === undefined
    ? null
    : {
        id: row.id,
        organizationId: row.organization_id,
        amountCents: Number(row.amount_cents),
        method: row.method ?? '',
        createdAtMs: row.created_at.getTime(),
      }
}

/** Returns the saved payment method of the last payment of an organization that failed; null: no such payment is known. */
export async function selectFailedMethod(db: Queryable, organizationId: string): Promise<string | null> {
  const rows = await db.query<{ method: string }>(
    `select method from payments
     where organization_id = $1::uuid and kind = 'auto_pay' and state = 'failed' and method is not null
     order by id desc limit 1`,
    [organizationId],
  )
  return rows[0]?.method ?? null
}

/** Counts the payments that auto-pay has begun since an instant. */
export async function countAttemptsSince(db: Queryable, organizationId: string, sinceMs: number): Promise<number> {
  const rows = await db.query<{ count: bigint }>(
    `select count(*) as count from payments
     where organization_id = $1::uuid and kind = 'auto_pay' and created_at >= $2::timestamptz`,
    [organizationId, toTimestamp(sinceMs)],
  )
  return Number(rows[0]?.count ?? 0n)
}

/**
 * Inserts a payment that the payment provider is about to be asked for (`opening`), or one that was found in its list. False: it is
 * there, or another one is under way.
 */
export async function insertAutoPayment(
  tx: Transaction,
  provider: PaymentProviderName,
  attempt: Omit<AutoPayAttempt, 'method'> & {
    readonly method: string | null
    readonly state: Extract<PaymentState, 'opening' | 'processing' | 'failed'>
  },
): Promise<boolean> {
  const rows = await tx.query(
    `insert into payments (id, organization_id, provider, kind, amount_cents, state, method, created_at)
     values ($1::uuid, $2::uuid, $3, 'auto_pay', $4::bigint, $7, $5, $6::timestamptz)
     on conflict do nothing returning id`,
    [
      attempt.id,
      attempt.organizationId,
      provider,
      attempt.amountCents,
      attempt.method,
      toTimestamp(attempt.createdAtMs),
      attempt.state,
    ],
  )
  return rows.length === 1
}

/** Writes what became of a payment; of one that was made, the amount that counts is the one that was paid. False: it is paid already, which nothing changes. */
export async function updateAttempt(
  tx: Transaction,
  id: string,
  facts: AutoPaymentFacts,
  nowMs: number,
): Promise<boolean> {
  const paid = facts.state === 'paid' ? facts : null
  const state: PaymentState = facts.state === 'paid' || facts.state === 'processing' ? facts.state : 'failed'
  const rows = await tx.query(
    `update payments set state = $2, reason = $3, payment = $4, paid_at = $6::timestamptz, gross_cents = $7::bigint,
       amount_cents = coalesce($8::bigint, amount_cents),
       receipt_url = (select $5 from organizations o where o.id = payments.organization_id and o.deleted_at is null)
     where id = $1::uuid and kind = 'auto_pay' and state <> 'paid' returning id`,
    [
      id,
      state,
      'reason' in facts ? facts.reason : null,
      paid?.payment ?? null,
      paid?.receiptUrl ?? null,
      paid === null ? null : toTimestamp(nowMs),
      paid?.grossCents ?? null,
      paid?.amountCents ?? null,
    ],
  )
  return rows.length === 1
}

/** Returns the states of those of some payments that are known, by their ids. */
export async function selectStates(db: Queryable, ids: readonly string[]): Promise<ReadonlyMap<string, PaymentState>> {
  const rows = await db.query<{ id: string; state: PaymentState }>(
    `select id, state from payments where id::text = any (string_to_array($1, ','))`,
    [ids.join(',')],
  )
  return new Map(rows.map(({ id, state }) => [id, state]))
}

function fromRow(row: AutoPayRow | undefined): AutoPay | null {
  if (row === undefined) return null
  const { failed_at: failedAt, failure } = row
  return {
    isEnabled: row.is_enabled,
    thresholdCents: row.threshold_cents === null ? null : Number(row.threshold_cents),
    amountCents: row.amount_cents === null ? null : Number(row.amount_cents),
    attemptsADay: row.attempts_a_day,
    declines: row.declines,
    failure: failedAt === null || failure === null ? null : { atMs: failedAt.getTime(), reason: failure },
    isTold: row.is_told,
    isSuspended: row.is_suspended,
    listedUntilMs: row.listed_until?.getTime() ?? null,
  }
}
