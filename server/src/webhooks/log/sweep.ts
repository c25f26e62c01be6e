import type { Database } from '../../infra/postgres/database.ts'
import { SWEEP_ROWS, SWEEP_STATEMENTS } from '../../lib/periodicTask.ts'
import { type Clock, DAY_MS } from '../../lib/time.ts'
import { dropBefore } from './store.ts'

/** Events, deliveries that are over, and attempts are kept for so long. */
const KEPT_MS = 30 * DAY_MS

/** Drops what is old. Deliveries before their events, so that none is left without one. */
export async function sweepWebhooks(
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  isStopping: () => boolean,
): Promise<void> {
  const beforeMs = clock.now() - KEPT_MS
  for (const what of ['attempts', 'deliveries', 'events'] as const) {
    for (let batch = 0; batch < SWEEP_STATEMENTS && !isStopping(); batch += 1) {
      if ((await dropBefore(database, what, beforeMs, SWEEP_ROWS)) < SWEEP_ROWS) break
    }
  }
}
