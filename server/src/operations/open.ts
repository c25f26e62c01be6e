import type { Database, Queryable } from '../infra/postgres/database.ts'
import { type Clock, DAY_MS, MINUTE_MS } from '../lib/time.ts'
import { operationRoutes } from './routes.ts'
import { deleteEndedOperations } from './store.ts'

/** For so long an operation can be asked for after its end. */
const KEPT_MS = 30 * DAY_MS

const DROPPED_AT_ONCE = 1_000

export interface OperationsOptions {
  readonly database: Database
  /** For reads whose clients wait. */
  readonly reads: Queryable
  readonly clock: Clock
}

/** Opens the room of operations. */
export function openOperations({ database, reads, clock }: OperationsOptions) {
  return {
    routes: operationRoutes(reads),
    periodicTasks: [
      {
        name: 'old operations',
        everyMs: 15 * MINUTE_MS,
        async run(isStopping: () => boolean) {
          while (!isStopping()) {
            const dropped = await deleteEndedOperations(database, clock.now() - KEPT_MS, DROPPED_AT_ONCE)
            if (dropped < DROPPED_AT_ONCE) return
          }
        },
      },
    ],
  }
}
