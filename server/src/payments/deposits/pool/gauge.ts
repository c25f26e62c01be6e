import type { DepositChain } from '../../../catalog/depositChain.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import type { LabelledGauge } from '../../../lib/gauge.ts'
import type { Log } from '../../../lib/log.ts'
import { countFree } from './store.ts'

/** A chain with a pool. */
export interface WatchedPool {
  readonly chain: DepositChain
  /** Fewer free addresses are logged. */
  readonly warnBelow: number
}

/** Makes the gauge of the free addresses of pools. `refresh` reads the figures anew, and warns once each time a pool runs short. */
export function createPoolGauge(database: Queryable, pools: readonly WatchedPool[], log: Log) {
  const free = new Map<DepositChain, number>()
  const gauge: LabelledGauge = {
    name: 'tollgate_deposit_pool_free_addresses',
    help: 'Addresses that new deposits can have. Import more before there are none.',
    labelNames: ['chain'],
    readEach: () => [...free].map(([chain, count]) => [{ chain }, count]),
  }
  return {
    gauge,
    async refresh(): Promise<void> {
      for (const { chain, warnBelow } of pools) {
        const before = free.get(chain) ?? Number.POSITIVE_INFINITY
        const count = await countFree(database, chain)
        free.set(chain, count)
        if (count === 0 && before > 0)
          log.error({ chain }, 'deposits: the pool has no free address, so no deposit can begin; import more')
        else if (count < warnBelow && before >= warnBelow)
          log.warn({ chain, free: count }, 'deposits: the pool is running short of addresses; import more')
      }
    },
  }
}
