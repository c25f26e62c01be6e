/** A transaction that stays open for as long as a test wants. */

import type { Database, Transaction } from '../src/infra/postgres/database.ts'

export interface OpenTransaction {
  commit(): Promise<void>
}

/** Opens a transaction, does `work` in it, and keeps it open until `commit` is called. */
export async function openTransaction(
  database: Database,
  work: (tx: Transaction) => Promise<unknown>,
): Promise<OpenTransaction> {
  const worked = Promise.withResolvers<void>()
  const committing = Promise.withResolvers<void>()
  const done = database.transaction(async (tx) => {
    await work(tx)
    worked.resolve()
    await committing.promise
  })
  await Promise.race([worked.promise, done])
  return {
    commit(): Promise<void> {
      committing.resolve()
      return done
    },
  }
}
