import { reconsiderKeysOf } from '../../identity/keys/reconsider.ts'
import { markFirstPayment } from '../../identity/organizations/markFirstPayment.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import { type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import { endNewness } from '../admission/accounts/newness.ts'
import { openAccount, postLedgerEntry } from '../admission/balance/balance.ts'

export interface Credit {
  readonly organizationId: string
  /** More than 0. */
  readonly amountMicrocents: bigint
  /** The origin of this credit, such as `grant:<uuid>`. The same source is posted once only. */
  readonly source: string
  readonly note: string | null
  /** A payment ends the limits of a new account (K2); a gift does not. */
  readonly isPayment: boolean
  readonly atMs: number
}

/** Adds credit to an organization's balance, in the caller's transaction. False, and nothing is changed, when this source was posted before. */
export async function grantCredit(tx: Transaction, random: RandomBytes, credit: Credit): Promise<boolean> {
  const { organizationId, amountMicrocents, source, note, atMs } = credit
  if (amountMicrocents <= 0n) throw new RangeError('a credit must be more than nothing')
  await openAccount(tx, organizationId)
  const id = uuidV7(atMs, random)
  const entry = { id, organizationId, amountMicrocents, kind: 'credit', source, note, postedAtMs: atMs } as const
  const isPosted = await postLedgerEntry(tx, entry)
  if (isPosted && credit.isPayment) await noteFirstPayment(tx, organizationId, atMs)
  return isPosted
}

/** Ends the limits of a new organization with its first payment (K2), in every process. Later payments change nothing. */
export async function noteFirstPayment(tx: Transaction, organizationId: string, atMs: number): Promise<void> {
  if (!(await markFirstPayment(tx, organizationId, atMs))) return
  await endNewness(tx, organizationId)
  await reconsiderKeysOf(tx, organizationId)
}
