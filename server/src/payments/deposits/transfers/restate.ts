import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import { WEEK_MS } from '../../../lib/time.ts'
import type { Deposit } from '../deposit/deposit.ts'
import { lockDepositsOf, unpaidDeposits, writeDeposit } from '../deposit/watched.ts'
import { deleteDropped, sumTransfers } from './store.ts'
import { stateOf } from './transfer.ts'

/** Writes down the states of deposits that are locked, as their transfers have them now. */
export async function restate(tx: Transaction, deposits: readonly Deposit[], nowMs: number): Promise<void> {
  for (const deposit of deposits) {
    const state = stateOf(deposit, await sumTransfers(tx, deposit), nowMs)
    const isSame =
      state.status === deposit.status &&
      state.creditedMicrocents === deposit.creditedMicrocents &&
      state.txHash === deposit.txHash
    if (!isSame) await writeDeposit(tx, deposit.id, state)
  }
}

/** Deposits that one transaction makes expire. */
const EXPIRED_AT_ONCE = 100

/** Makes deposits of a chain expire that nobody has paid in time, some at a time; later looks see to the rest. */
export async function expireDeposits(database: Database, chain: string, nowMs: number): Promise<void> {
  const ids = await unpaidDeposits(database, chain, nowMs, EXPIRED_AT_ONCE)
  if (ids.length === 0) return
  await database.transaction(async (tx) => restate(tx, await lockDepositsOf(tx, ids), nowMs))
}

/** Dropped transfers that one look deletes. */
const FORGOTTEN_AT_ONCE = 1_000

/** Deletes transfers that the chain took back a week ago, some at a time; later looks see to the rest. */
export function forgetDropped(database: Database, chain: string, nowMs: number): Promise<void> {
  return deleteDropped(database, chain, nowMs - WEEK_MS, FORGOTTEN_AT_ONCE)
}
