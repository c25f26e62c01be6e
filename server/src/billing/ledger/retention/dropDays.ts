import type { Database } from '../../../infra/postgres/database.ts'
import type { Log } from '../../../lib/log.ts'
import { DAY_MS, toTimestamp, utcDay } from '../../../lib/time.ts'
import { keepPostedSums } from '../../statements/closing/closeDays.ts'
import { chargeDays, compareWithSums, droppedSourcePrefix } from '../days.ts'
import { dropChargeDay, enterChargesOfDay, lockChargeDay } from './store.ts'

/** Dropping a partition locks all of `charges` for a moment. If somebody reads them for long, no charge waits longer. */
const LOCK_WAIT_MS = 200

/**
 * Drops the charges of days that ended `retentionDays` or more days ago. The charges of each organization on such a
 * day become one ledger entry in the same transaction; rollups, and the sums that statements are made of, stay. A
 * charge that comes later makes its day's partition anew, as any late charge does, and the next call folds it into a
 * further entry. A day whose charges differ from its rollups is kept, for the operator to look at, and so is one that
 * can't be dropped now; the days after it are dropped all the same. Returns the days that were dropped; rejects in the end where one
 * could not be.
 */
export async function dropOldDays(
  dependencies: { readonly database: Database; readonly log: Log },
  retentionDays: number,
  nowMs: number,
): Promise<readonly string[]> {
  const { database, log } = dependencies
  const firstKept = utcDay(nowMs - retentionDays * DAY_MS)
  const dropped: string[] = []
  const failures: unknown[] = []
  for (const day of (await chargeDays(database)).filter((each) => each < firstKept)) {
    const outcome = await dropDay(database, day, nowMs).catch((error: unknown) => {
      failures.push(error)
      return 'failed' as const
    })
    if (outcome === 'dropped') dropped.push(day)
    if (outcome === 'disagrees') {
      log.error(
        { day },
        'charges of this day are past retention but kept, because they disagree with the rollups; run "./tollgate ledger verify"',
      )
    }
  }
  if (dropped.length > 0) log.info({ days: dropped }, 'charges past their retention are dropped')
  if (failures.length > 0) throw failures[0]
  return dropped
}

function dropDay(database: Database, day: string, nowMs: number): Promise<'dropped' | 'disagrees' | 'busy'> {
  return database.transaction(async (tx) => {
    if (!(await lockChargeDay(tx, day, LOCK_WAIT_MS))) return 'busy'
    const dayMs = Date.parse(`${day}T00:00:00Z`)
    const { times, differences } = await compareWithSums(tx, day, 1)
    if (differences.length > 0) return 'disagrees'
    await enterChargesOfDay(tx, day, {
      sourcePrefix: droppedSourcePrefix(day),
      sourceSuffix: times === 0 ? '' : `:${times + 1}`,
      note: `charges admitted on ${day}, dropped ${toTimestamp(nowMs)}`,
      atMs: nowMs,
    })
    await keepPostedSums(tx, dayMs)
    await dropChargeDay(tx, day, nowMs)
    return 'dropped'
  })
}
