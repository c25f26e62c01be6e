import type { Database, Transaction } from '../../infra/postgres/database.ts'
import { type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import { openAccount, postLedgerEntry } from '../admission/balance/balance.ts'
import { tellDebit } from './takeBack.ts'

export interface Adjustment {
  readonly organizationId: string
  /** Above or below 0, not 0. */
  readonly amountMicrocents: bigint
  /** The same source is posted once only, such as `adjustment:<uuid>`. */
  readonly source: string
  /** Why: an adjustment has nothing else that would tell. */
  readonly note: string
  readonly atMs: number
}

/**
 * Corrects a balance by hand, up or down; it may become negative. `record` writes in the same transaction, if the adjustment was posted.
 * After a debit every process is asked to come into line with it; one that can't be told sees the debit when it next asks the account.
 * False when this source was posted before.
 */
export async function adjustBalance(
  database: Database,
  random: RandomBytes,
  adjustment: Adjustment,
  record: (tx: Transaction) => Promise<void> = async () => {},
): Promise<boolean> {
  const isPosted = await database.transaction(async (tx) => {
    const posted = await post(tx, random, adjustment)
    if (posted) await record(tx)
    return posted
  })
  if (adjustment.amountMicrocents < 0n) await tellDebit(database, adjustment.organizationId)
  return isPosted
}

async function post(tx: Transaction, random: RandomBytes, adjustment: Adjustment): Promise<boolean> {
  const { organizationId, amountMicrocents, source, note, atMs } = adjustment
  if (amountMicrocents === 0n) throw new RangeError('an adjustment of nothing changes nothing')
  await openAccount(tx, organizationId)
  const id = uuidV7(atMs, random)
  const entry = { id, organizationId, amountMicrocents, kind: 'adjustment', source, note, postedAtMs: atMs } as const
  return postLedgerEntry(tx, entry)
}
