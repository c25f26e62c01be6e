/** A database before the real one whose statements fail when a history says so. */

import type { Database, Queryable, Transaction } from '../../src/infra/postgres/database.ts'

/** A process died, or lost its database, at a statement. */
export class Killed extends Error {
  override readonly name = 'Killed'
}

/**
 * Counts statements down and fails at the one that `remaining` comes to 0 at: before it is sent, or, with `isAnswerLost`, after it was
 * carried out. A commit counts as one.
 */
export interface Trouble {
  remaining: number
  isAnswerLost: boolean
}

/** Dresses a database so that `trouble` befalls it. */
export function troubledDatabase(database: Database, trouble: Trouble): Database {
  const carryOut = async <T>(work: () => Promise<T>): Promise<T> => {
    trouble.remaining -= 1
    if (trouble.remaining === 0 && !trouble.isAnswerLost) throw new Killed('killed before a statement')
    const result = await work()
    if (trouble.remaining === 0) throw new Killed('killed after a statement')
    return result
  }
  const dress = (inner: Queryable): Pick<Queryable, 'query'> => ({
    query: (text, parameters) => carryOut(() => inner.query(text, parameters)),
  })
  return {
    ...dress(database),
    async transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T> {
      const result = await database.transaction(async (tx) => {
        const done = await work({ ...dress(tx), isTransaction: true })
        // Before the commit.
        trouble.remaining -= 1
        if (trouble.remaining === 0 && !trouble.isAnswerLost) throw new Killed('killed before a commit')
        return done
      })
      if (trouble.remaining === 0) throw new Killed('killed after a commit')
      return result
    },
    close: async () => {},
  }
}
