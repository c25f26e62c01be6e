import type { Database } from '../io/postgres/database.ts'
import { type RandomBytes, uuidV7 } from '../kernel/ids.ts'
import { openAccount, postLedgerEntry } from './store.ts'

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
 * Corrects a balance by hand, up or down; it may become negative. What calls hold or processes were allotted is not
 * taken back by this. False when this source was posted before.
 */
export function adjustBalance(database: Database, random: RandomBytes, adjustment: Adjustment): Promise<boolean> {
  if (adjustment.amountMicrocents === 0n) throw new RangeError('an adjustment of nothing changes nothing')
  return database.transaction(async (tx) => {
    await openAccount(tx, adjustment.organizationId)
    return postLedgerEntry(tx, {
      id: uuidV7(adjustment.atMs, random),
      organizationId: adjustment.organizationId,
      amountMicrocents: adjustment.amountMicrocents,
      kind: 'adjustment',
      source: adjustment.source,
      note: adjustment.note,
      postedAtMs: adjustment.atMs,
    })
  })
}
