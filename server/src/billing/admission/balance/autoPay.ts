/** The part of auto-pay that stands on the row of the account: its threshold, and the job that follows from the balance (B5). */

import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { claimDueAutoPay, selectAutoPay, updateAutoPay } from './store.ts'

export interface AccountAutoPay {
  /** Without the spend that is not folded yet. Every write of it makes the job where it is below the threshold. */
  readonly balanceMicrocents: bigint
  /** Null: auto-pay is off. */
  readonly thresholdMicrocents: bigint | null
  /** When auto-pay looks at the account next, in milliseconds since the epoch; null: there is nothing to do. */
  readonly dueAtMs: number | null
  /** True while a process looks at the account: `dueAtMs` is when another one may, should the first have died. */
  readonly isClaimed: boolean
}

/** Returns auto-pay of an account; null where the organization never had one. */
export async function readAccountAutoPay(db: Queryable, organizationId: string): Promise<AccountAutoPay | null> {
  return fromRow(await selectAutoPay(db, organizationId, { locks: false }))
}

/** Returns the same, and locks the account until the end of the transaction: nobody writes its balance meanwhile. */
export async function lockAccountAutoPay(tx: Transaction, organizationId: string): Promise<AccountAutoPay | null> {
  return fromRow(await selectAutoPay(tx, organizationId, { locks: true }))
}

/** Sets the threshold and the job of an account that is locked. */
export function setAccountAutoPay(
  tx: Transaction,
  organizationId: string,
  autoPay: Pick<AccountAutoPay, 'thresholdMicrocents' | 'dueAtMs'>,
): Promise<void> {
  return updateAutoPay(tx, organizationId, autoPay)
}

/** Claims jobs that are due, at most `limit`; returns their organizations. Until `untilMs` no other process takes them. */
export function claimAutoPay(db: Queryable, nowMs: number, untilMs: number, limit: number): Promise<string[]> {
  return claimDueAutoPay(db, { nowMs, untilMs, limit })
}

function fromRow(row: Awaited<ReturnType<typeof selectAutoPay>>): AccountAutoPay | null {
  if (row === null) return null
  const dueAtMs = row.auto_pay_due_at?.getTime() ?? null
  return {
    balanceMicrocents: row.balance_microcents,
    thresholdMicrocents: row.auto_pay_threshold_microcents,
    dueAtMs,
    isClaimed: dueAtMs !== null && dueAtMs === row.auto_pay_claimed_until?.getTime(),
  }
}
