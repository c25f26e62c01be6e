import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { LOWEST_UUID } from '../../../lib/ids.ts'
import type { Deposit } from './deposit.ts'
import { incrementCredited, lockDeposits, selectIdsOf, selectToExpire, selectWatched, updateDeposit } from './store.ts'

/**
 * Gives the addresses of a chain that were to be watched at an instant, in parts of at most `part`: a node takes no longer list. An
 * address is among them once the transaction that gave it out is committed.
 */
export async function* watchedAddresses(
  db: Queryable,
  chain: string,
  atMs: number,
  part: number,
): AsyncGenerator<readonly string[]> {
  let afterId = LOWEST_UUID
  while (true) {
    const rows = await selectWatched(db, chain, atMs, afterId, part)
    const last = rows.at(-1)
    if (last === undefined) return
    yield rows.map(({ address }) => address)
    if (rows.length < part) return
    afterId = last.id
  }
}

/** Returns the ids of the deposits that have these addresses, by address. */
export function depositIdsOf(db: Queryable, chain: string, addresses: readonly string[]): Promise<Map<string, string>> {
  return selectIdsOf(db, chain, addresses)
}

/** Locks deposits until the end of the transaction. Every transaction locks those that it changes in one call, before anything else. */
export function lockDepositsOf(tx: Transaction, ids: readonly string[]): Promise<Deposit[]> {
  return lockDeposits(tx, ids)
}

/** Writes down the state of a deposit that is locked. */
export function writeDeposit(tx: Transaction, id: string, state: Pick<Deposit, 'status' | 'txHash'>): Promise<void> {
  return updateDeposit(tx, id, state)
}

/** Adds a credit to the sum of a deposit that is locked, in the transaction of the ledger's entry. */
export function addCredited(tx: Transaction, id: string, amountMicrocents: bigint): Promise<void> {
  return incrementCredited(tx, id, amountMicrocents)
}

/** Returns the ids of deposits that nobody has paid in time and that do not say so yet. */
export function unpaidDeposits(db: Queryable, chain: string, nowMs: number, limit: number): Promise<string[]> {
  return selectToExpire(db, chain, nowMs, limit)
}
