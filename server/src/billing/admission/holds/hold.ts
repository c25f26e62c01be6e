/**
 * Money held for work that outlives its request: a row, and its sum on the account. It is held against the
 * balance alone (V6), and never counts as any process's.
 */

import type { Transaction } from '../../../infra/postgres/database.ts'
import { addHeld, deleteHold, deleteHolds, insertHold, lockAccount } from './store.ts'

export interface DurableHold {
  /** That of the work. */
  readonly id: string
  readonly organizationId: string
  /** At least 0; of nothing there is no row. */
  readonly microcents: bigint
}

/** Places a hold. False: the balance leaves less beside what is held and what processes were granted. */
export async function placeHold(tx: Transaction, hold: DurableHold): Promise<boolean> {
  if (hold.microcents === 0n) return true
  if (!(await addHeld(tx, hold.organizationId, hold.microcents))) return false
  await insertHold(tx, hold)
  return true
}

/** Gives back what is held for `id`, and returns how much that was in micro-cents; null where nothing is held. */
export function release(tx: Transaction, id: string): Promise<bigint | null> {
  return deleteHold(tx, id)
}

/** Gives back what is held for some work of an organization, in one statement; returns how many holds there were. */
export function releaseAll(tx: Transaction, organizationId: string, ids: readonly string[]): Promise<number> {
  return deleteHolds(tx, organizationId, ids)
}

/** Locks an account until the end of the transaction. */
export function lock(tx: Transaction, organizationId: string): Promise<void> {
  return lockAccount(tx, organizationId)
}
