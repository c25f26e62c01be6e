import type { Queryable } from '../../infra/postgres/database.ts'
import { sweepInBatches } from '../../lib/periodicTask.ts'
import { type Clock, DAY_MS } from '../../lib/time.ts'
import { deleteAuditEntries } from './store.ts'

const KEPT_MS = 400 * DAY_MS

/** Removes entries that are older than 400 days. */
export async function sweepAuditLog(
  { database, clock }: { readonly database: Queryable; readonly clock: Clock },
  isStopping: () => boolean,
): Promise<void> {
  const beforeMs = clock.now() - KEPT_MS
  await sweepInBatches((atMost) => deleteAuditEntries(database, beforeMs, atMost), isStopping)
}
