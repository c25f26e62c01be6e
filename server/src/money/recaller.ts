import type { Database } from '../io/postgres/database.ts'
import type { Log } from '../kernel/log.ts'
import { type Clock, SECOND_MS } from '../kernel/time.ts'
import { recallAllotments } from './accounts/recall.ts'
import type { Slot } from './slot.ts'

/** After a recall the dead are looked for too, at most this often: a killed process answers no recall. */
const RECLAIM_INTERVAL_MS = 2 * SECOND_MS

export interface RecallerDependencies {
  readonly database: Database
  readonly slot: Slot
  readonly clock: Clock
  readonly log: Log
}

/**
 * What asks the other processes for an organization's idle money, and takes what dead ones have of it. It returns at once;
 * what fails is logged, and met again with the next recall.
 */
export function createRecaller(dependencies: RecallerDependencies): (organizationId: string) => void {
  const { database, slot, clock, log } = dependencies
  let reclaimedAtMs = Number.NEGATIVE_INFINITY
  const report = (error: unknown) => log.warn({ err: error }, 'other processes could not be asked to give money back')
  return (organizationId) => {
    recallAllotments(database, organizationId).catch(report)
    const nowMs = clock.monotonicMs()
    if (nowMs - reclaimedAtMs < RECLAIM_INTERVAL_MS) return
    reclaimedAtMs = nowMs
    slot.reclaim().catch(report)
  }
}
