/** A database that stops answering, as a stopped server or a dead network does: what it is asked neither fails nor ends. */

import type { Database, Queryable } from '../src/infra/postgres/database.ts'

/**
 * Where statements and transactions stop while it is stalled:
 * - `before`: they are not carried out, and no transaction begins
 * - `within`: the same, but transactions begin and stop at the first statement that is stalled
 * - `after`: they are carried out, and nobody hears of it
 */
export type Stall = 'before' | 'within' | 'after'

export interface StalledDatabase {
  readonly database: Database
  /** How many statements and transactions wait for their answer. */
  readonly waiting: number
  /** From now on nothing is answered. */
  stall(stall: Stall): void
  /**
   * Ends the stall. A waiting statement is answered, after it was carried out where it was not yet; or its connection
   * is closed, and it is never carried out if it was not yet.
   */
  recover(waiting: 'answered' | 'lost'): void
}

/**
 * Stands between a caller and a real database. It is not stalled at first. `concerns` says which statements are ever stalled,
 * by their text, and transactions with them; `before` stalls every transaction. Left out: all.
 */
export function stallable(database: Database, concerns: (text: string) => boolean = () => true): StalledDatabase {
  let stalled: Stall | null = null
  let ends: ((isLost: boolean) => void)[] = []
  const stop = async () => {
    const isLost = await new Promise<boolean>((resolve) => ends.push(resolve))
    if (isLost) throw new Error('the connection was closed')
  }
  const query =
    (to: Queryable): Queryable['query'] =>
    async (text, parameters) => {
      if (!concerns(text)) return await to.query(text, parameters)
      if (stalled === 'before' || stalled === 'within') await stop()
      const rows = await to.query(text, parameters)
      if (stalled === 'after') await stop()
      return rows as never
    }
  return {
    database: {
      query: query(database),
      async transaction(work) {
        if (stalled === 'before') await stop()
        let isConcerned = false
        const result = await database.transaction((tx) =>
          work({
            ...tx,
            query(text, parameters) {
              isConcerned ||= concerns(text)
              // A statement that is carried out is not yet committed.
              return stalled === 'after' ? tx.query(text, parameters) : query(tx)(text, parameters)
            },
          }),
        )
        if (stalled === 'after' && isConcerned) await stop()
        return result
      },
      close: () => database.close(),
    },
    get waiting() {
      return ends.length
    },
    stall(stall) {
      stalled = stall
    },
    recover(waiting) {
      stalled = null
      const ended = ends
      ends = []
      for (const end of ended) end(waiting === 'lost')
    },
  }
}
