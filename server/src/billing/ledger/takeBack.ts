import type { Database, Transaction } from '../../infra/postgres/database.ts'
import { type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import { tellChange } from '../admission/accounts/reclaim.ts'
import { openAccount, postLedgerEntry } from '../admission/balance/balance.ts'

/** Credit of a payment that goes back with its money, or comes again. */
export interface TakenBack {
  readonly organizationId: string
  /** Below 0: the balance loses it, and may become negative. Not 0. */
  readonly amountMicrocents: bigint
  readonly kind: 'payment_refund' | 'payment_dispute'
  /** Has the payment provider's own id of the movement. The same source is posted once only. */
  readonly source: string
  readonly note: string
  readonly atMs: number
}

/**
 * Takes credit of a payment back in the caller's transaction, or gives it back. False, and nothing is changed, when this source was
 * posted before. Call {@link tellDebit} after the transaction when credit was taken.
 */
export async function takeBackCredit(tx: Transaction, random: RandomBytes, taken: TakenBack): Promise<boolean> {
  const { organizationId, amountMicrocents, kind, source, note, atMs } = taken
  if (amountMicrocents === 0n) throw new RangeError('a movement of nothing is no entry')
  await openAccount(tx, organizationId)
  const id = uuidV7(atMs, random)
  return postLedgerEntry(tx, { id, organizationId, amountMicrocents, kind, source, note, postedAtMs: atMs })
}

/**
 * Asks every process to come into line with a debit that is committed; one that can't be told sees it when it next asks the account.
 * Never rejects: a debit that is posted must not look as if it had failed.
 */
export function tellDebit(database: Database, organizationId: string): Promise<void> {
  const tell = () => tellChange(database, organizationId)
  return tell().catch(() => tell().catch(() => {}))
}
