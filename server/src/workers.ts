/** Every background worker and sweep. */

import type { LiveCatalog } from './catalog/watch.ts'
import type { Database } from './io/postgres/database.ts'
import type { Log } from './kernel/log.ts'
import { type Clock, DAY_MS, MINUTE_MS } from './kernel/time.ts'
import type { OpenMoney } from './money/openMoney.ts'
import type { Slot } from './money/slot.ts'
import { ensureChargePartition } from './money/store.ts'
import type { UpstreamClients } from './upstream/clients.ts'

export interface WorkerDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  readonly slot: Slot
  readonly catalog: LiveCatalog
  readonly clients: UpstreamClients
  readonly money: OpenMoney
}

/** Partitions exist this many days ahead, so that midnight never waits for one. */
const PARTITION_DAYS_AHEAD = 2

/** Makes the partitions for today and the days to come. */
export async function preparePartitions(database: Database, nowMs: number): Promise<void> {
  for (let day = 0; day <= PARTITION_DAYS_AHEAD; day += 1) {
    await ensureChargePartition(database, nowMs + day * DAY_MS)
  }
}

/** Starts the once-a-minute round; the result stops it. A step that fails is logged and met again in the next round. */
export function startWorkers(dependencies: WorkerDependencies): () => void {
  const { database, clock, log, slot, catalog, clients, money } = dependencies
  const steps: readonly (readonly [string, () => Promise<void>])[] = [
    ['partitions', () => preparePartitions(database, clock.now())],
    ['reclaim', () => slot.reclaim()],
    ['idle wallets', () => money.dropIdle()],
    ['upstream clients', () => clients.keepOnly(catalog.current().upstreams.values())],
  ]
  let stopped = false
  let cancel = () => {}
  const round = async () => {
    for (const [step, run] of steps) {
      if (stopped) return
      await run().catch((error: unknown) =>
        log.warn({ err: error, step }, 'housekeeping failed; tried again in a minute'),
      )
    }
    if (!stopped) arm()
  }
  const arm = () => {
    cancel = clock.after(MINUTE_MS, () => void round())
  }
  arm()
  return () => {
    stopped = true
    cancel()
  }
}
