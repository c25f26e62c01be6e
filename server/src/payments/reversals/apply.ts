import { takeBackCredit } from '../../billing/ledger/takeBack.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import { MICROCENTS_PER_CENT } from '../../lib/money.ts'
import { freezeOrganization, unfreezeOrganization } from '../freezes/freezes.ts'
import type { PaymentProviderName } from '../provider/payment.ts'
import { isAgainstOperator, type ReversalFacts, type ReversalState, reversedCredit } from '../provider/reversal.ts'
import { closeRefundRequest, insertMovement, lockPaid, sumMovements, updateReversed } from './store.ts'

/** The change that was applied, for those who are told afterwards. */
export interface AppliedReversal {
  /** US cents of credit: above 0 were taken, below 0 given back. */
  readonly takenCents: number
  readonly isFrozen: boolean
}

interface Applying {
  readonly random: RandomBytes
  readonly provider: PaymentProviderName
  readonly nowMs: number
}

/**
 * Posts the movements of a reversal that were not posted before. The ledger has of each one what it changes in the credit that is taken
 * back, so that all together never exceed the payment (B8). Returns the US cents of credit that were taken.
 */
export async function postMovements(
  tx: Transaction,
  { random, provider, nowMs }: Applying,
  paymentId: string,
  facts: ReversalFacts,
): Promise<number> {
  const payment = await lockPaid(tx, paymentId)
  if (payment === null) throw new Error(`the payment ${paymentId} has a ${facts.reversal} and was never paid`)
  if (facts.request !== null) await closeRefundRequest(tx, payment.id, facts.request)
  let movedCents = await sumMovements(tx, payment.id)
  let { reversedCents } = payment
  for (const movement of facts.movements) {
    if (!(await insertMovement(tx, provider, payment.id, movement, nowMs))) continue
    movedCents += movement.amountCents
    const afterCents = reversedCredit(payment, -movedCents)
    if (afterCents === reversedCents) continue
    await takeBackCredit(tx, random, {
      organizationId: payment.organizationId,
      amountMicrocents: BigInt(reversedCents - afterCents) * MICROCENTS_PER_CENT,
      kind: movement.kind,
      source: `${movement.kind}:${provider}:${movement.id}`,
      note: `of the payment ${payment.id}`,
      atMs: nowMs,
    })
    reversedCents = afterCents
  }
  if (reversedCents !== payment.reversedCents) await updateReversed(tx, payment.id, reversedCents)
  return reversedCents - payment.reversedCents
}

/**
 * Freezes the organization of a dispute that was opened or lost, and unfreezes it when it is won (B11). It follows the change of the state
 * alone: an operator who has unfrozen an organization is not overruled by another look. Returns whether it was frozen now.
 */
export async function freezeForDispute(
  tx: Transaction,
  { provider, nowMs }: Applying,
  organizationId: string,
  before: ReversalState | null,
  { reversal, state }: ReversalFacts,
): Promise<boolean> {
  const cause = `${provider}:${reversal}`
  if (isAgainstOperator(state) && !isAgainstOperator(before)) {
    await freezeOrganization(tx, organizationId, { reason: 'dispute', cause, note: null, frozenAtMs: nowMs })
    return true
  }
  if (isAgainstOperator(before) && !isAgainstOperator(state)) {
    await unfreezeOrganization(tx, organizationId, 'dispute', cause)
  }
  return false
}
