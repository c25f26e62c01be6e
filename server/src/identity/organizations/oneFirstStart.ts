import type { Database, Transaction } from '../../infra/postgres/database.ts'
import { lockFirstStart } from './store.ts'

/** The name of the organization that a first start makes. */
export const FIRST_ORGANIZATION = 'default'

/**
 * Runs the work of a first start in a transaction. Of several processes that start on one database, one does it at a time: each sees
 * what the one before has committed.
 */
export function inOneFirstStart<T>(database: Database, work: (tx: Transaction) => Promise<T>): Promise<T> {
  return database.transaction(async (tx) => {
    await lockFirstStart(tx)
    return work(tx)
  })
}
