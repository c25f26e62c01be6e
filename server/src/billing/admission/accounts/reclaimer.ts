import type { Database } from '../../../infra/postgres/database.ts'
import type { Log } from '../../../lib/log.ts'
import { type Clock, SECOND_MS } from '../../../lib/time.ts'
import type { Slot } from '../../../processes/slot.ts'
import { reclaimShares } from './reclaim.ts'

/** After a reclaim the dead are looked for too, at most this often: a killed process answers no reclaim. */
const FOLD_INTERVAL_MS = 2 * SECOND_MS

export interface ReclaimerDependencies {
  readonly database: Database
  readonly slot: Slot
  readonly clock: Clock
  readonly log: Log
}

/**
 * Asks the other processes for an organization's idle money, and takes what dead ones have of it. It returns at once;
 * what fails is logged, and met again with the next reclaim.
 */
export function createReclaimer(dependencies: ReclaimerDependencies): (organizationId: string) => void {
  const { database, slot, clock, log } = dependencies
  let foldedAtMs = Number.NEGATIVE_INFINITY
  const report = (error: unknown) => log.warn({ err: error }, 'other processes could not be asked to give money back')
  return (organizationId) => {
    reclaimShares(database, organizationId).catch(report)
    const nowMs = clock.monotonicMs()
    if (nowMs - foldedAtMs < FOLD_INTERVAL_MS) return
    foldedAtMs = nowMs
    slot.foldAbandoned().catch(report)
  }
}
