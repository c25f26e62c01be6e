/** Every query that opens an account, moves its balance by an entry of the ledger, or reads it to the last charge; and on its auto-pay. */

import { arrayLiteral, type Queryable, type Transaction } from '../../../infra/postgres/database.ts'
import { NEW_ACCOUNT_DAYS } from '../../../lib/newAccount.ts'
import { toTimestamp } from '../../../lib/time.ts'
import type { LedgerEntry } from './entry.ts'

/** Inserts an organization's account with nothing in it. Does nothing where it is there already. */
export async function insertAccount(db: Queryable, organizationId: string): Promise<void> {
  await db.query(
    // Nobody is told that an account is empty which never had anything: as if that had been done.
    `insert into accounts (organization_id, balance_microcents, told_below_microcents, new_until)
     select id, 0, 0, case when standing = 'new' and first_paid_at is null then created_at + interval '${NEW_ACCOUNT_DAYS} days' end
     from organizations where id = $1::uuid
     on conflict (organization_id) do nothing`,
    [organizationId],
  )
}

/** Returns the account's balance less the charges that processes have posted and not yet folded in; null without an account. */
export async function selectBalance(db: Queryable, organizationId: string): Promise<bigint | null> {
  const rows = await db.query<{ balance: bigint }>(
    `select (a.balance_microcents - coalesce(
       (select sum(s.spent_microcents) from unfolded_spend s where s.organization_id = a.organization_id), 0))::bigint as balance
     from accounts a where a.organization_id = $1::uuid`,
    [organizationId],
  )
  return rows[0]?.balance ?? null
}

/** Returns the same of several organizations; those without an account are left out. */
export async function selectBalances(db: Queryable, organizationIds: readonly string[]): Promise<Map<string, bigint>> {
  const rows = await db.query<{ organization_id: string; balance: bigint }>(
    `select a.organization_id, (a.balance_microcents - coalesce(
       (select sum(s.spent_microcents) from unfolded_spend s where s.organization_id = a.organization_id), 0))::bigint as balance
     from accounts a where a.organization_id = any ($1::text::uuid[])`,
    [arrayLiteral(organizationIds)],
  )
  return new Map(rows.map((row) => [row.organization_id, row.balance]))
}

/**
 * Adds a movement to the ledger and to the balance. Returns false, and changes nothing, where its source was posted before. It counts in no
 * month that is closed, also where the database's clock was set back.
 */
export async function insertEntry(tx: Transaction, entry: LedgerEntry): Promise<boolean> {
  const inserted = await tx.query(
    `insert into ledger_entries (id, organization_id, amount_microcents, kind, source, note, posted_at)
     values ($1::uuid, $2::uuid, $3::bigint, $4, $5, $6, greatest($7::timestamptz,
       (select (max(month) + interval '1 month')::timestamp at time zone 'UTC' from closed_months)))
     on conflict (source) do nothing returning id`,
    [
      entry.id,
      entry.organizationId,
      entry.amountMicrocents,
      entry.kind,
      entry.source,
      entry.note,
      toTimestamp(entry.postedAtMs),
    ],
  )
  if (inserted.length === 0) return false
  await tx.query(
    // A payment that lifts the balance above where it was told to be low: the next fall is told again. An entry that leaves it
    // below the threshold of auto-pay makes the job of that (B5).
    `update accounts set balance_microcents = balance_microcents + $2::bigint,
       told_below_microcents = case when balance_microcents + $2::bigint < told_below_microcents then told_below_microcents end,
       auto_pay_due_at = coalesce(auto_pay_due_at,
         case when balance_microcents + $2::bigint < auto_pay_threshold_microcents then $3::timestamptz end)
     where organization_id = $1::uuid`,
    [entry.organizationId, entry.amountMicrocents, toTimestamp(entry.postedAtMs)],
  )
  return true
}

/** Auto-pay as the row of the account has it. */
export interface AutoPayRow {
  readonly balance_microcents: bigint
  readonly auto_pay_threshold_microcents: bigint | null
  readonly auto_pay_due_at: Date | null
  readonly auto_pay_claimed_until: Date | null
}

/** Returns auto-pay of an account; null without an account. `locks`: until the end of the transaction. */
export async function selectAutoPay(
  db: Queryable,
  organizationId: string,
  { locks }: { readonly locks: boolean },
): Promise<AutoPayRow | null> {
  const rows = await db.query<AutoPayRow>(
    `select balance_microcents, auto_pay_threshold_microcents, auto_pay_due_at, auto_pay_claimed_until from accounts
     where organization_id = $1::uuid${locks ? ' for update' : ''}`,
    [organizationId],
  )
  return rows[0] ?? null
}

/** Writes the threshold of auto-pay and when its job is due; null: auto-pay is off, or has nothing to do. */
export async function updateAutoPay(
  tx: Transaction,
  organizationId: string,
  { thresholdMicrocents, dueAtMs }: { readonly thresholdMicrocents: bigint | null; readonly dueAtMs: number | null },
): Promise<void> {
  await tx.query(
    `update accounts set auto_pay_threshold_microcents = $2::bigint, auto_pay_due_at = $3::timestamptz
     where organization_id = $1::uuid
       and (auto_pay_threshold_microcents, auto_pay_due_at) is distinct from ($2::bigint, $3::timestamptz)`,
    [organizationId, thresholdMicrocents, dueAtMs === null ? null : toTimestamp(dueAtMs)],
  )
}

/** Returns organizations whose auto-pay is due, at most `limit`, and makes it due again at `untilMs`. Waits for no lock. */
export async function claimDueAutoPay(
  db: Queryable,
  { nowMs, untilMs, limit }: { readonly nowMs: number; readonly untilMs: number; readonly limit: number },
): Promise<string[]> {
  const rows = await db.query<{ organization_id: string }>(
    `update accounts a set auto_pay_due_at = $2::timestamptz, auto_pay_claimed_until = $2::timestamptz from (
       select organization_id from accounts where auto_pay_due_at <= $1::timestamptz
       order by auto_pay_due_at limit $3::integer for no key update skip locked) due
     where a.organization_id = due.organization_id returning a.organization_id`,
    [toTimestamp(nowMs), toTimestamp(untilMs), limit],
  )
  return rows.map((row) => row.organization_id)
}
