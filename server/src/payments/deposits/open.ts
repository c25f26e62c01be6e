import { type DepositChain, type DepositChainSettings, isEvmChain } from '../../catalog/depositChain.ts'
import type { DepositSettings } from '../../catalog/settings.ts'
import type { Noter } from '../../identity/audit/note.ts'
import { systemFetch } from '../../infra/fetch.ts'
import type { Metrics } from '../../infra/metrics.ts'
import type { Database, Queryable } from '../../infra/postgres/database.ts'
import { inWorkGauge } from '../../jobs/gauge.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import { type Clock, SECOND_MS, within } from '../../lib/time.ts'
import { ChainFailure, type ChainTrouble } from './chains/chain.ts'
import { createNodeFinals, type NodeFinals } from './chains/nodeFinals.ts'
import type { DepositAddresses } from './deposit/addresses.ts'
import { createEvmAddresses, createEvmOffers, showEvmAddress } from './evm/addresses.ts'
import { createEvmReader } from './evm/reader.ts'
import { createPoolGauge } from './pool/gauge.ts'
import { createPoolAddresses } from './pool/offer.ts'
import { depositRoutes } from './routes.ts'
import { createAskHook } from './screening/hook.ts'
import { createSolanaReader } from './solana/reader.ts'
import { isChainAvailable } from './watch/available.ts'
import { createDepositGauges } from './watch/gauges.ts'
import { createDepositRunner } from './watch/runner.ts'
import { insertChains } from './watch/store.ts'

/** How long a start waits for the nodes of all chains. A chain that does not answer by then is checked when it is watched. */
const CHECK_MS = 10 * SECOND_MS

const FIGURES_MS = 15 * SECOND_MS

export interface DepositsOptions {
  readonly database: Database
  /** For reads whose clients wait. */
  readonly reads: Queryable
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  readonly metrics: Metrics
  readonly settings: DepositSettings
  /** Writes changes into the audit log. */
  readonly noter: Noter
}

/** Opens stablecoin deposits. Rejects where a chain or a token is not what the settings say. */
export async function openDeposits({ settings, metrics, noter, reads, ...machine }: DepositsOptions) {
  const { database, clock, log } = machine
  const finals = createNodeFinals(log)
  const chains = openChains(settings, { clock, log, metrics, finals })
  const addressesOf = openAddresses(machine, settings, chains)
  await checkChains(chains, clock, log)
  const names = chains.map(({ chain }) => chain)
  await insertChains(database, names, clock.now())
  const askHook = createAskHook(settings.screening, clock, systemFetch)
  const runner = createDepositRunner({ ...machine, settings, askHook, chains, metrics })
  const figures = createDepositGauges(database, clock, names)
  const pools = settings.chains.flatMap(({ chain, poolWarnBelow: warnBelow }) =>
    warnBelow === null ? [] : [{ chain, warnBelow }],
  )
  const pool = createPoolGauge(database, pools, log)
  const refresh = async () => {
    await figures.refresh()
    await pool.refresh()
  }
  const pollMs = new Map(chains.map((each) => [each.chain, each.pollMs]))
  return {
    routes: depositRoutes({
      ...machine,
      settings,
      noter,
      reads,
      addressesOf,
      showAddress,
      isAvailable: (chain) => isChainAvailable(database, chain, pollMs.get(chain) ?? 0, clock.now()),
    }),
    periodicTasks: [{ name: 'figures of deposits', everyMs: FIGURES_MS, run: refresh }],
    metrics: [...figures.gauges, finals.gauge, ...(pools.length === 0 ? [] : [pool.gauge]), inWorkGauge(runner)],
    onOpened: runner.start,
    stop: runner.close,
  }
}

/** Returns an address as people are shown it. */
export function showAddress(chain: DepositChain, address: string): string {
  return isEvmChain(chain) ? showEvmAddress(address) : address
}

/** Opens the readers of all chains of the settings. They ask nobody yet. */
export function openChains({ chains }: Pick<DepositSettings, 'chains'>, machine: ChainsMachine) {
  return chains.map((settings) => ({ ...settings, ...openReader(settings, machine) }))
}

type ChainsMachine = Pick<DepositsOptions, 'clock' | 'log'> & {
  readonly metrics: Pick<Metrics, 'rpcFailed'>
  readonly finals?: NodeFinals
}

/** A chain without an extended public key tells of an address whether it was ever used. */
function openReader(settings: DepositChainSettings, { clock, log, metrics, finals }: ChainsMachine) {
  const { chain } = settings
  const onError = (node: number, trouble: ChainTrouble) => {
    metrics.rpcFailed(chain, node, trouble)
    if (trouble === 'malformed')
      log.warn({ chain, node }, 'deposits: a node answered in another form; it is asked after the others for a while')
  }
  const options = { clock, send: systemFetch, onError, onFinal: finals?.of(chain) }
  if (isEvmChain(chain))
    return { reader: createEvmReader({ ...options, settings: { ...settings, chain }, log }), hasHistory: null }
  const reader = createSolanaReader({ ...options, settings })
  return { reader, hasHistory: reader.hasHistory }
}

/** Opens what gives out the addresses of each chain. */
function openAddresses(
  machine: Omit<DepositsOptions, 'settings' | 'metrics' | 'noter' | 'reads'>,
  { xpub }: Pick<DepositSettings, 'xpub'>,
  chains: ReturnType<typeof openChains>,
): (chain: DepositChain) => DepositAddresses {
  const derived = xpub === null ? null : createEvmOffers(createEvmAddresses(xpub), machine.random)
  const pooled = chains.flatMap(({ chain, hasHistory }) =>
    hasHistory === null ? [] : [[chain, createPoolAddresses(machine, chain, hasHistory)] as const],
  )
  const pools = new Map(pooled)
  return (chain) => {
    const found = pools.get(chain) ?? derived
    if (found === null) throw new Error(`deposits: nothing gives out addresses of ${chain}`)
    return found
  }
}

/**
 * Checks chains and tokens. One that can't be asked now does not keep the server from starting: it is checked before
 * the chain is watched.
 */
async function checkChains(chains: ReturnType<typeof openChains>, clock: Clock, log: Log): Promise<void> {
  const checks = chains.map(async ({ chain, reader }) => {
    try {
      const late = new ChainFailure('away', `the nodes of ${chain} do not answer`)
      const result = await within(clock, CHECK_MS, reader.check(), late)
      if (result !== undefined) throw result
    } catch (error) {
      if (!(error instanceof ChainFailure)) throw error
      if (error.trouble === 'wrong') throw new Error(`deposits: ${error.message}; correct the settings`)
      log.warn(
        { chain, reason: error.message },
        'deposits: a chain could not be checked at the start; it is tried again',
      )
    }
  })
  await Promise.all(checks)
}
