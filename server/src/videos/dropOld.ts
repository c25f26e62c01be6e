import type { Database } from '../infra/postgres/database.ts'
import { type Clock, DAY_MS } from '../lib/time.ts'
import { dropOver } from './store.ts'

/** Rows a statement: each takes milliseconds, and locks nobody out. */
const BATCH_ROWS = 1_000

/** Statements a round; with a round a minute, more than 1,600 rows a second. */
const BATCHES = 100

/**
 * Drops jobs that were made more than `days` days ago, have ended, and have neither a file nor anything that somebody must look
 * at. Their charges and usage stay. Returns how many.
 */
export async function dropOldVideos(
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  days: number,
  isStopping: () => boolean,
): Promise<number> {
  let dropped = 0
  for (let batch = 0; batch < BATCHES && !isStopping(); batch += 1) {
    const rows = await dropOver(database, clock.now() - days * DAY_MS, BATCH_ROWS)
    dropped += rows
    if (rows < BATCH_ROWS) break
  }
  return dropped
}
