import type { Database } from '../io/postgres/database.ts'
import { type RandomBytes, uuidV7 } from '../kernel/ids.ts'
import { reconsiderKeysOf } from '../keys/reconsider.ts'
import { markFirstPayment } from '../organizations/markFirstPayment.ts'
import { endNewness } from './accounts/newness.ts'
import { openAccount, postLedgerEntry } from './store.ts'

export interface Credit {
  readonly organizationId: string
  /** More than 0. */
  readonly amountMicrocents: bigint
  /** What this movement comes from; the same source is posted once only, such as `grant:<uuid>`. */
  readonly source: string
  readonly note: string | null
  /** A payment ends the limits of a new organization (K2); a gift does not. */
  readonly isPayment: boolean
  readonly atMs: number
}

/** Adds credit to an organization's balance. False when this source was posted before. */
export function grantCredit(database: Database, random: RandomBytes, credit: Credit): Promise<boolean> {
  if (credit.amountMicrocents <= 0n) throw new RangeError('a credit must be more than nothing')
  return database.transaction(async (tx) => {
    await openAccount(tx, credit.organizationId)
    const posted = await postLedgerEntry(tx, {
      id: uuidV7(credit.atMs, random),
      organizationId: credit.organizationId,
      amountMicrocents: credit.amountMicrocents,
      kind: 'credit',
      source: credit.source,
      note: credit.note,
      postedAtMs: credit.atMs,
    })
    if (posted && credit.isPayment && (await markFirstPayment(tx, credit.organizationId, credit.atMs))) {
      await endNewness(tx, credit.organizationId)
      await reconsiderKeysOf(tx, credit.organizationId)
    }
    return posted
  })
}
