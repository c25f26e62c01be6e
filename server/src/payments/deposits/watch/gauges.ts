import type { DepositChain } from '../../../catalog/depositChain.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import type { LabelledGauge } from '../../../lib/gauge.ts'
import { type Clock, SECOND_MS } from '../../../lib/time.ts'
import { type DepositFigures, readDepositFigures } from '../deposit/find.ts'
import { type ChainFigures, selectChains } from './store.ts'

/** The metrics of deposits, as they were read last. */
export interface DepositGauges {
  readonly gauges: readonly LabelledGauge[]
  /** Reads the figures anew. */
  refresh(): Promise<void>
}

/** Makes the gauges of these chains, and of deposits. They show nothing before the first `refresh`. */
export function createDepositGauges(
  database: Queryable,
  clock: Clock,
  watched: readonly DepositChain[],
): DepositGauges {
  let chains: readonly ChainFigures[] = []
  let deposits: readonly DepositFigures[] = []
  const ofChains = (name: string, help: string, figureOf: (chain: ChainFigures) => number): LabelledGauge => ({
    name,
    help,
    labelNames: ['chain'],
    readEach: () => chains.map((each) => [{ chain: each.chain }, figureOf(each)]),
  })
  const ofDeposits = (name: string, help: string, figureOf: (figures: DepositFigures) => number): LabelledGauge => ({
    name,
    help,
    labelNames: ['status'],
    readEach: () => deposits.map((each) => [{ status: each.status }, figureOf(each)]),
  })
  const secondsSince = (ms: number) => Math.max(clock.now() - ms, 0) / SECOND_MS
  return {
    gauges: [
      ofChains('tollgate_deposit_chain_up', '1 when the last look at the chain did not fail.', ({ isAvailable }) =>
        Number(isAvailable),
      ),
      ofChains('tollgate_deposit_chain_head_block', 'The newest block seen.', ({ headBlock }) => headBlock),
      ofChains(
        'tollgate_deposit_chain_settled_block',
        'The last block that is settled.',
        ({ settledBlock }) => settledBlock,
      ),
      ofChains(
        'tollgate_deposit_chain_lag_blocks',
        'Blocks that were seen and are not settled.',
        ({ headBlock, settledBlock }) => Math.max(headBlock - settledBlock, 0),
      ),
      ofChains(
        'tollgate_deposit_chain_unseen_seconds',
        'Seconds since the chain was last read with success. Alert on more than a few minutes.',
        ({ seenAtMs }) => secondsSince(seenAtMs),
      ),
      {
        name: 'tollgate_deposit_chain_final_still_seconds',
        help: 'Time since the final block of the chain was last seen to move. Nothing is credited meanwhile.',
        labelNames: ['chain'],
        readEach: () =>
          chains.flatMap(({ chain, finalMovedAtMs }) =>
            finalMovedAtMs === null ? [] : [[{ chain }, secondsSince(finalMovedAtMs)]],
          ),
      },
      ofDeposits('tollgate_deposits', 'Deposits that are not over, by status, at most 10000.', ({ count }) => count),
      ofDeposits(
        'tollgate_oldest_deposit_seconds',
        'Age of the oldest deposit that is not over, by status.',
        ({ oldestMs }) => secondsSince(oldestMs),
      ),
    ],
    async refresh() {
      ;[chains, deposits] = [await selectChains(database, watched), await readDepositFigures(database)]
    },
  }
}
