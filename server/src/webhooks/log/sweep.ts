import type { Database } from '../../io/postgres/database.ts'
import { type Clock, DAY_MS } from '../../kernel/time.ts'
import { dropBefore } from './store.ts'

/** Events, deliveries that are over, and attempts are kept for so long. */
const KEPT_MS = 30 * DAY_MS

/** Rows a statement: each takes milliseconds, and locks nobody out. */
const BATCH_ROWS = 1_000

/** Statements a round for each; with a round a minute, more than 1,600 rows a second. */
const BATCHES = 100

/** Drops what is old. Deliveries before their events, so that none is left without one. */
export async function sweepWebhooks(
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  isStopping: () => boolean,
): Promise<void> {
  const beforeMs = clock.now() - KEPT_MS
  for (const what of ['attempts', 'deliveries', 'events'] as const) {
    for (let batch = 0; batch < BATCHES && !isStopping(); batch += 1) {
      if ((await dropBefore(database, what, beforeMs, BATCH_ROWS)) < BATCH_ROWS) break
    }
  }
}
