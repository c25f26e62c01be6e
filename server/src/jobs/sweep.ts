import type { Database } from '../infra/postgres/database.ts'
import { SWEEP_ROWS } from '../lib/periodicTask.ts'
import { type Clock, DAY_MS } from '../lib/time.ts'
import type { JobHandler } from './handler.ts'
import { deleteEnded, toDeadUnhandled } from './store.ts'

/** How long a job that is done is kept: for so long its unique key is taken. */
const DONE_KEPT_MS = 7 * DAY_MS
/** How long a dead one is kept, for the operator. */
const DEAD_KEPT_MS = 30 * DAY_MS
/** A job that no process has had a handler for in so long will not find one. */
const UNHANDLED_KEPT_MS = 30 * DAY_MS

/** Deletes jobs that ended long ago, and gives up those that nobody has a handler for. */
export async function sweepJobs(
  { database, clock, jobHandlers }: { database: Database; clock: Clock; jobHandlers: readonly JobHandler[] },
  isStopping: () => boolean,
): Promise<void> {
  const nowMs = clock.now()
  const kinds = jobHandlers.map(({ kind }) => kind)
  const error = 'no process had a handler for its kind'
  const unhandled = { dueBeforeMs: nowMs - UNHANDLED_KEPT_MS, nowMs, error, limit: SWEEP_ROWS }
  const ended = { doneBeforeMs: nowMs - DONE_KEPT_MS, deadBeforeMs: nowMs - DEAD_KEPT_MS, limit: SWEEP_ROWS }
  while (!isStopping() && (await toDeadUnhandled(database, kinds, unhandled)) === SWEEP_ROWS);
  while (!isStopping() && (await deleteEnded(database, ended)) === SWEEP_ROWS);
}
