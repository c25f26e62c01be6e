/** A database that answers each statement with an error of a test's choice. The server raises it, and the real client reads it. */

import type { Database, Queryable } from '../../src/infra/postgres/database.ts'

export interface RaisingDatabase {
  readonly database: Database
  /** How many statements were answered with an error since the last call of `raise`. */
  readonly raised: number
  /** From now on the server raises this SQLSTATE in place of each statement; null: each is carried out again. */
  raise(sqlState: string | null): void
  /** From now on statements go to another database; null: to the first one again. */
  use(other: Database | null): void
}

const PLANTED = `create function raise_planted(state text) returns void language plpgsql as $$
  begin raise exception 'planted' using errcode = state; end $$`

/** Plants the function that raises into a real database. */
export async function raising(database: Database): Promise<RaisingDatabase> {
  await database.query(PLANTED)
  let state: string | null = null
  let other: Database | null = null
  let raised = 0
  const query =
    (to: Queryable): Queryable['query'] =>
    (text, parameters) => {
      if (state === null) return to.query(text, parameters)
      raised += 1
      return to.query('select raise_planted($1)', [state])
    }
  return {
    database: {
      query: (text, parameters) => query(other ?? database)(text, parameters),
      transaction: (work, owner) =>
        (other ?? database).transaction((tx) => work({ isTransaction: true, query: query(tx) }), owner),
      close: () => database.close(),
    },
    get raised() {
      return raised
    },
    raise(sqlState) {
      state = sqlState
      raised = 0
    },
    use(next) {
      other = next
    },
  }
}
