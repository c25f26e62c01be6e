import type { Database } from '../../../infra/postgres/database.ts'
import { LOWEST_UUID } from '../../../lib/ids.ts'
import { insertStatements, isClosedMonth, lockClosing, noteClosedMonth, readMonthToClose } from './store.ts'

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
  while (!isStopping()) {
    // Until a first month is closed, this reads everything that was ever posted: so it is asked once a month, not once a page.
    const month = await readMonthToClose(database)
    if (month === null || !(await closeMonth(database, month, nowMs, isStopping))) break
    closed.push(month)
  }
  return closed
}

/** Closes the first month that is not closed, page by page. Returns whether this process has closed it. */
async function closeMonth(
  database: Database,
  month: string,
  nowMs: number,
  isStopping: () => boolean,
): Promise<boolean> {
  for (let after = LOWEST_UUID; !isStopping(); ) {
    const last = await database.transaction(async (tx) => {
      // Another process may have closed it meanwhile.
      if (!(await lockClosing(tx)) || (await isClosedMonth(tx, month))) return 'busy'
      const written = await insertStatements(tx, month, after, STATEMENTS_PAGE, nowMs)
      if (written === null) await noteClosedMonth(tx, month, nowMs)
      return written
    })
    if (last === 'busy') return false
    if (last === null) return true
    after = last
  }
  return false
}
