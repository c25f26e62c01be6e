import type { Queryable } from '../../infra/postgres/database.ts'
import { sweepInBatches } from '../../lib/periodicTask.ts'
import { type Clock, DAY_MS } from '../../lib/time.ts'
import { deleteAuditEntries, deleteWholeBudgets } from './store.ts'

const KEPT_MS = 400 * DAY_MS

/** Removes entries that are older than 400 days, and the budgets that nothing is spent of. */
export async function sweepAuditLog(
  { database, clock }: { readonly database: Queryable; readonly clock: Clock },
  isStopping: () => boolean,
): Promise<void> {
  const nowMs = clock.now()
  const beforeMs = nowMs - KEPT_MS
  await sweepInBatches((atMost) => deleteAuditEntries(database, beforeMs, atMost), isStopping)
  await sweepInBatches((atMost) => deleteWholeBudgets(database, nowMs, atMost), isStopping)
}
