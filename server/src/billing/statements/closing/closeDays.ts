import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import { DAY_MS, HOUR_MS, utcDay } from '../../../lib/time.ts'
import { lockClosing, noteClosedDay, readFirstOpenDay, sumDropped, sumPosted } from './store.ts'

/**
 * A day, and so a month, is closed so long after its end. A charge is committed at most a minute after the instant at which it counts as posted:
 * statements end after 30 s, and transactions that wait after 60 s.
 */
export const POSTED_GRACE_MS = HOUR_MS

/** Summed by one statement: at 1,000 charges a second 20 million, which takes some 10 s. A statement has 30 s. */
const PIECE_MS = 6 * HOUR_MS

/**
 * Closes the UTC days of posting that ended an hour ago or earlier, the oldest first, at most `most` of them: sums their charges for good.
 * Of several processes one closes a day. Returns the days that this process has closed.
 */
export async function closeDays(
  database: Database,
  nowMs: number,
  most: number,
  isStopping: () => boolean = () => false,
): Promise<readonly string[]> {
  const lastDay = utcDay(nowMs - POSTED_GRACE_MS - DAY_MS)
  const closed: string[] = []
  while (closed.length < most && !isStopping()) {
    const first = (await readFirstOpenDay(database)) ?? lastDay
    if (first > lastDay) break
    const day = await database.transaction((tx) => closeDay(tx, lastDay, nowMs))
    if (day === null) break
    closed.push(day)
  }
  return closed
}

/** Closes the first open day up to `lastDay`, in pieces, so that no statement takes long. */
async function closeDay(tx: Transaction, lastDay: string, nowMs: number): Promise<string | null> {
  if (!(await lockClosing(tx))) return null
  const day = (await readFirstOpenDay(tx)) ?? lastDay
  if (day > lastDay) return null
  const startMs = Date.parse(`${day}T00:00:00Z`)
  for (let pieceMs = startMs; pieceMs < startMs + DAY_MS; pieceMs += PIECE_MS) {
    await sumPosted(tx, pieceMs, pieceMs + PIECE_MS)
  }
  await noteClosedDay(tx, day, nowMs)
  return day
}

/**
 * Keeps the sums of charges that the transaction is about to drop: all that were admitted on the UTC day that begins at `dayMs`. The
 * transaction has the lock of retention, which closing takes too.
 */
export function keepPostedSums(tx: Transaction, dayMs: number): Promise<void> {
  return sumDropped(tx, dayMs, dayMs + DAY_MS)
}
