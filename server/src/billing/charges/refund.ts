import type { Database, Transaction } from '../../infra/postgres/database.ts'
import { instantOfUuid, type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import { postLedgerEntry } from '../admission/balance/balance.ts'
import type { Charge } from './charge.ts'
import { findCharge } from './store.ts'

export interface Refund {
  /** The charge's id, a UUID. */
  readonly chargeId: string
  /** More than 0; null: all that was charged, to the micro-cent. */
  readonly amountMicrocents: bigint | null
  readonly note: string | null
  readonly atMs: number
}

/**
 * The outcome of a refund:
 * - `unknown`: there is no such charge, or its day was dropped by retention
 * - `nothing`: the charge came to nothing
 * - `too_much`: more than was charged
 * - `repeated`: the charge was refunded before
 */
export type RefundResult =
  | {
      readonly kind: 'refunded'
      readonly organizationId: string
      readonly amountMicrocents: bigint
      readonly source: string
    }
  | { readonly kind: 'unknown' | 'nothing' | 'repeated' }
  | { readonly kind: 'too_much'; readonly costMicrocents: bigint }

/**
 * Gives the money of a charge back, once: the entry's source is the charge's. Credits the balance only; the charge, the
 * usage and everything that limits or meters count stay as they were.
 */
export function refundCharge(database: Database, random: RandomBytes, refund: Refund): Promise<RefundResult> {
  const { chargeId, atMs } = refund
  if (refund.amountMicrocents !== null && refund.amountMicrocents <= 0n) {
    throw new RangeError('a refund must be more than nothing')
  }
  return database.transaction(async (tx): Promise<RefundResult> => {
    const admittedAtMs = instantOfUuid(chargeId)
    const charge = admittedAtMs === null ? null : await findCharge(tx, chargeId, admittedAtMs)
    if (charge === null) return { kind: 'unknown' }
    const { organizationId, costMicrocents } = charge
    if (costMicrocents === 0n) return { kind: 'nothing' }
    const amountMicrocents = refund.amountMicrocents ?? costMicrocents
    if (amountMicrocents > costMicrocents) return { kind: 'too_much', costMicrocents }
    const source = sourceOf(chargeId)
    const posted = await postLedgerEntry(tx, {
      id: uuidV7(atMs, random),
      organizationId,
      amountMicrocents,
      kind: 'refund',
      source,
      note: refund.note,
      postedAtMs: atMs,
    })
    return posted ? { kind: 'refunded', organizationId, amountMicrocents, source } : { kind: 'repeated' }
  })
}

/**
 * Credits charges whose answers nobody got, in the transaction that posts them or finds them posted (E14). A charge that was
 * refunded before is left alone. Charges of nothing must not be among them.
 */
export async function creditUndelivered(
  tx: Transaction,
  random: RandomBytes,
  charges: readonly Charge[],
  atMs: number,
): Promise<void> {
  // Accounts are locked in the order of their ids, by whoever locks several.
  const ordered = charges.toSorted((one, other) => (one.organizationId < other.organizationId ? -1 : 1))
  for (const { chargeId, organizationId, costMicrocents } of ordered) {
    await postLedgerEntry(tx, {
      id: uuidV7(atMs, random),
      organizationId,
      amountMicrocents: costMicrocents,
      kind: 'refund',
      source: sourceOf(chargeId),
      note: 'the answer was not delivered: its charge was not known to be posted in time',
      postedAtMs: atMs,
    })
  }
}

const sourceOf = (chargeId: string) => `refund:${chargeId}`
