/** The noun of a transfer: tokens that came to the address of a deposit, and the status that all of them give it. */

import type { DepositAsset, DepositChain } from '../../../catalog/depositChain.ts'
import { type Deposit, type DepositStatus, MICROCENTS_PER_UNIT, UNITS_PER_CENT } from '../deposit/deposit.ts'

/**
 * `detected`, `confirming`: in a block that may be taken back; under others, once there are any. `settled`: in a final one. `small`: so
 * too, and of less than is screened by itself. `screening`: the hook is being asked. `held`: it could not be asked, or wants a person.
 * `credited`, `rejected`: decided. `dropped`: the chain has taken it back.
 */
export type TransferState =
  | 'detected'
  | 'confirming'
  | 'small'
  | 'settled'
  | 'screening'
  | 'held'
  | 'credited'
  | 'rejected'
  | 'dropped'

/** Names a transfer. */
export interface TransferKey {
  readonly chain: DepositChain
  readonly transactionHash: string
  readonly ordinal: number
}

export interface Transfer extends TransferKey {
  readonly depositId: string
  readonly token: string
  readonly asset: DepositAsset | null
  readonly sender: string
  /** Others that the transaction took the token from. */
  readonly otherSenders: readonly string[]
  readonly units: bigint
  readonly blockNumber: number
  readonly state: TransferState
  readonly attempts: number
}

/** Under this a credit is posted once, whatever is repeated. */
export function sourceOf({ chain, transactionHash, ordinal }: TransferKey): string {
  return `deposit:${chain}:${transactionHash}:${ordinal}`
}

/** The sums of the transfers of one deposit. */
export interface TransferSums {
  /** More than 0 where there is any. */
  readonly counts: Readonly<Partial<Record<TransferState, number>>>
  readonly creditedUnits: bigint
  /** True when one that is in a block that may be taken back was first seen after the deposit had expired. */
  readonly isLate: boolean
  readonly txHash: string | null
}

/** The states of a transfer that is under way, and the status that it gives its deposit; the first one goes before the others. */
const UNDER_WAY: readonly (readonly [TransferState, DepositStatus])[] = [
  ['detected', 'detected'],
  ['confirming', 'confirming'],
  ['settled', 'settled'],
  ['screening', 'screening'],
  ['held', 'held_screening'],
]

/** Of what has come to stay: a deposit that has one of these did not expire, and what comes late to it is one more payment. */
const CAME: readonly TransferState[] = ['settled', 'screening', 'held', 'credited', 'rejected']

/** The state of a deposit by its transfers (B6). */
export function stateOf(
  { amountCents, expiresAtMs }: Pick<Deposit, 'amountCents' | 'expiresAtMs'>,
  { counts, creditedUnits, isLate, txHash }: TransferSums,
  nowMs: number,
): Pick<Deposit, 'status' | 'creditedMicrocents' | 'txHash'> {
  return { status: status(), creditedMicrocents: creditedUnits * MICROCENTS_PER_UNIT, txHash }

  function status(): DepositStatus {
    const has = (state: TransferState) => (counts[state] ?? 0) > 0
    if (isLate && !CAME.some(has)) return 'expired_received'
    const underWay = UNDER_WAY.find(([state]) => has(state))
    if (underWay !== undefined) return underWay[1]
    if (has('credited')) return comparedWith(BigInt(amountCents) * UNITS_PER_CENT, creditedUnits)
    if (has('rejected')) return 'failed_screening'
    if (nowMs < expiresAtMs) return 'created'
    return has('dropped') ? 'failed' : 'expired'
  }
}

function comparedWith(asked: bigint, credited: bigint): DepositStatus {
  if (credited === asked) return 'credited'
  return credited < asked ? 'credited_underpaid' : 'credited_overpaid'
}
