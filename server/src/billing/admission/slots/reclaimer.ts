import type { Database } from '../../../infra/postgres/database.ts'
import type { Log } from '../../../lib/log.ts'
import { type Clock, SECOND_MS } from '../../../lib/time.ts'
import type { Slot } from '../../../processes/slot.ts'
import { reclaimShares, tellChange } from '../accounts/reclaim.ts'
import type { OnDayMended } from '../renewal/renew.ts'
import type { SendReclaim } from '../wants.ts'
import { foldShare } from './foldSlot.ts'
import { listSlotsOfShares } from './store.ts'

/** A slot with an owner is looked at again after this time: a killed process answers no reclaim. */
const OWNED_FOR_MS = 2 * SECOND_MS

export interface ReclaimerDependencies {
  readonly database: Database
  readonly slot: Pick<Slot, 'number' | 'isAbandoned'>
  readonly clock: Clock
  readonly log: Log
  /** As of every renewal; left out: nobody is told. */
  readonly lowBalanceMicrocents?: bigint
  readonly onDayMended?: OnDayMended
}

/**
 * Asks the other processes for an organization's money, and takes what dead ones have of it. It returns at once;
 * what fails is logged, and met again with the next reclaim.
 */
export function createReclaimer(dependencies: ReclaimerDependencies): SendReclaim {
  const { database, slot, clock, log } = dependencies
  /** By slot that had an owner, when that was seen. As many as there are slots at most. */
  const ownedAtMs = new Map<number, number>()
  const foldDead = async (organizationId: string) => {
    for (const number of await listSlotsOfShares(database, organizationId, slot.number)) {
      const nowMs = clock.monotonicMs()
      if (nowMs - (ownedAtMs.get(number) ?? Number.NEGATIVE_INFINITY) < OWNED_FOR_MS) continue
      const isDead = await database.transaction(async (tx) => {
        if (!(await slot.isAbandoned(tx, number))) return false
        await foldShare(tx, number, organizationId, clock.now(), dependencies)
        return true
      })
      if (!isDead) ownedAtMs.set(number, nowMs)
    }
  }
  const report = (error: unknown) => log.warn({ err: error }, 'other processes could not be asked to give money back')
  return (organizationId, from) => {
    const ask = from === 'all' ? tellChange : reclaimShares
    ask(database, organizationId).catch(report)
    foldDead(organizationId).catch(report)
  }
}
