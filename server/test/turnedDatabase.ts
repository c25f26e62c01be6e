/** A database whose clock a test turns: `clock_timestamp()` of every statement is the test's instant. */

import type { Database, Queryable, SqlParameter } from '../src/infra/postgres/database.ts'
import { type Clock, toTimestamp } from '../src/lib/time.ts'

const READING = 'clock_timestamp()'

/**
 * Returns a statement as it is with the database's clock at `nowMs`: where it reads the clock, it has one more parameter, its last. Its
 * text stays the same from one instant to the next, so that it is prepared once.
 */
export function atInstant(
  text: string,
  parameters: readonly SqlParameter[],
  nowMs: number,
): { readonly text: string; readonly parameters: readonly SqlParameter[] } {
  if (!text.includes(READING)) return { text, parameters }
  const instant = `$${parameters.length + 1}::timestamptz`
  return { text: text.replaceAll(READING, instant), parameters: [...parameters, toTimestamp(nowMs)] }
}

/** Returns the same database with the clock of a test. */
export function turnedDatabase(database: Database, clock: Pick<Clock, 'now'>): Database {
  const query =
    (to: Queryable): Queryable['query'] =>
    (text, parameters = []) => {
      const turned = atInstant(text, parameters, clock.now())
      return to.query(turned.text, turned.parameters)
    }
  return {
    ...database,
    query: query(database),
    transaction: (work, owner) => database.transaction((tx) => work({ ...tx, query: query(tx) }), owner),
    close: () => database.close(),
  }
}
