/** Decides about settled transfers: credits, rejects or holds them, each in the transaction of its deposit's new state. */

import { grantCredit } from '../../../billing/ledger/grantCredit.ts'
import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import type { RandomBytes } from '../../../lib/ids.ts'
import { MICROCENTS_PER_CENT } from '../../../lib/money.ts'
import type { Clock } from '../../../lib/time.ts'
import { type Deposit, MICROCENTS_PER_UNIT } from '../deposit/deposit.ts'
import { addCredited, lockDepositsOf } from '../deposit/watched.ts'
import { restate } from './restate.ts'
import { claimScreenings, selectHeld, updateDecided, updateHeld } from './store.ts'
import { sourceOf, type Transfer } from './transfer.ts'

export interface DecidingDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly settings: { readonly minDepositCents: number }
}

export type TransferDecision =
  | { readonly kind: 'credit' }
  | { readonly kind: 'reject'; readonly reason: string }
  /** It is screened again at `dueAtMs`. */
  | { readonly kind: 'hold'; readonly reason: string; readonly dueAtMs: number }

/** Claims settled transfers that are due to be screened, at most `limit`; they are due again at `untilMs`. */
export async function claimTransfers(
  { database, clock }: DecidingDependencies,
  untilMs: number,
  limit: number,
): Promise<readonly Transfer[]> {
  const nowMs = clock.now()
  const claimed = await claimScreenings(database, { nowMs, untilMs }, limit)
  if (claimed.length === 0) return claimed
  const ids = [...new Set(claimed.map(({ depositId }) => depositId))]
  await database.transaction(async (tx) => restate(tx, await lockDepositsOf(tx, ids), nowMs))
  return claimed
}

/** Carries out a decision about a transfer that was claimed. Does nothing where it was claimed anew, or decided, since. */
export async function decideTransfer(
  dependencies: DecidingDependencies,
  transfer: Transfer,
  decision: TransferDecision,
): Promise<void> {
  await dependencies.database.transaction(async (tx) => {
    const [deposit] = await lockDepositsOf(tx, [transfer.depositId])
    if (deposit === undefined) return
    const after = await carryOut(tx, dependencies, deposit, transfer, decision)
    await restate(tx, [after], dependencies.clock.now())
  })
}

/**
 * Decides about all held transfers of a deposit, as the operator says, and returns how many there were. If their sum is not `seenUnits`,
 * more is held than the operator has seen: decides nothing, and returns the sum.
 */
export async function decideHeld(
  dependencies: DecidingDependencies,
  depositId: string,
  decision: Exclude<TransferDecision, { kind: 'hold' }>,
  seenUnits: bigint | null = null,
): Promise<number | { readonly heldUnits: bigint }> {
  return dependencies.database.transaction(async (tx) => {
    let [deposit] = await lockDepositsOf(tx, [depositId])
    if (deposit === undefined) return 0
    const held = await selectHeld(tx, depositId)
    const heldUnits = held.reduce((sum, { units }) => sum + units, 0n)
    if (held.length > 0 && seenUnits !== null && heldUnits !== seenUnits) return { heldUnits }
    // The sum of the credits goes on from one to the next: together they may make the first payment.
    for (const transfer of held) deposit = await carryOut(tx, dependencies, deposit, transfer, decision)
    await restate(tx, [deposit], dependencies.clock.now())
    return held.length
  })
}

/** Returns the deposit as it is then. */
async function carryOut(
  tx: Transaction,
  dependencies: DecidingDependencies,
  deposit: Deposit,
  transfer: Transfer,
  decision: TransferDecision,
): Promise<Deposit> {
  const atMs = dependencies.clock.now()
  if (decision.kind === 'hold') {
    await updateHeld(tx, transfer, decision)
    return deposit
  }
  const state = decision.kind === 'credit' ? 'credited' : 'rejected'
  const reason = decision.kind === 'credit' ? null : decision.reason
  const isDecided = await updateDecided(tx, transfer, { state, reason, atMs })
  return isDecided && decision.kind === 'credit' ? postTransfer(tx, dependencies, deposit, transfer, atMs) : deposit
}

/**
 * Posts the credit of a transfer, of exactly what has come. Only what makes the deposit reach the minimum counts as a first payment (B12).
 */
async function postTransfer(
  tx: Transaction,
  { random, settings }: DecidingDependencies,
  deposit: Deposit,
  transfer: Transfer,
  atMs: number,
): Promise<Deposit> {
  const amountMicrocents = transfer.units * MICROCENTS_PER_UNIT
  const creditedMicrocents = deposit.creditedMicrocents + amountMicrocents
  await grantCredit(tx, random, {
    organizationId: deposit.organizationId,
    amountMicrocents,
    source: sourceOf(transfer),
    note: `deposit ${deposit.id}`,
    isPayment: creditedMicrocents >= BigInt(settings.minDepositCents) * MICROCENTS_PER_CENT,
    atMs,
  })
  await addCredited(tx, deposit.id, amountMicrocents)
  return { ...deposit, creditedMicrocents }
}
