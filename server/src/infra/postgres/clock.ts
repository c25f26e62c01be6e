import type { Queryable } from './database.ts'

/** Returns the database server's own clock, in whole milliseconds since the epoch. */
export async function readClock(db: Queryable): Promise<number> {
  const rows = await db.query<{ now: Date }>('select clock_timestamp() as now')
  return rows[0]?.now.getTime() ?? 0
}
