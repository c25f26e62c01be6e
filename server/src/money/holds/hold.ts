/**
 * Money set aside for work that outlives its request: a row, and its sum on the account. It is set aside against the
 * balance alone (V6), and never counts as any process's.
 */

import type { Transaction } from '../../io/postgres/database.ts'
import { deleteHold, insertHold, lockAccount, reserve } from './store.ts'

export interface DurableHold {
  /** That of the work. */
  readonly id: string
  readonly organizationId: string
  /** At least 0; of nothing there is no row. */
  readonly microcents: bigint
}

/** Sets money aside. False: the balance leaves less beside what is held and what processes were allotted. */
export async function setAside(tx: Transaction, hold: DurableHold): Promise<boolean> {
  if (hold.microcents === 0n) return true
  if (!(await reserve(tx, hold.organizationId, hold.microcents))) return false
  await insertHold(tx, hold)
  return true
}

/** Gives back what is held for `id`; does nothing where that has happened. */
export function release(tx: Transaction, id: string): Promise<void> {
  return deleteHold(tx, id)
}

/** Locks an account until the end of the transaction. */
export function lock(tx: Transaction, organizationId: string): Promise<void> {
  return lockAccount(tx, organizationId)
}
