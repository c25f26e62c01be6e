import type { Database } from '../../../infra/postgres/database.ts'
import { LOWEST_UUID } from '../../../lib/ids.ts'
import { insertStatements, lockClosing, noteClosedMonth, readMonthToClose } from './store.ts'

/** Accounts a transaction: each has a row for each day and model of the month, so that it takes some tenths of a second. */
const STATEMENTS_PAGE = 200

/**
 * Writes the statements of every month whose days are all closed, the oldest first. A run that ends on the way is taken up where it
 * ended. Returns the months that this process has closed, as `YYYY-MM-01`.
 */
export async function closeMonths(
  database: Database,
  nowMs: number,
  isStopping: () => boolean = () => false,
): Promise<readonly string[]> {
  const closed: string[] = []
  for (let after = LOWEST_UUID; !isStopping(); ) {
    const month = await readMonthToClose(database)
    if (month === null) break
    const last = await database.transaction(async (tx) => {
      // Another process may have closed it meanwhile.
      if (!(await lockClosing(tx)) || (await readMonthToClose(tx)) !== month) return 'busy'
      const written = await insertStatements(tx, month, after, STATEMENTS_PAGE, nowMs)
      if (written === null) await noteClosedMonth(tx, month, nowMs)
      return written
    })
    if (last === 'busy') break
    if (last === null) closed.push(month)
    after = last ?? LOWEST_UUID
  }
  return closed
}
