import type { DepositChain } from '../../../catalog/depositChain.ts'
import type { JobOutcome } from '../../../jobs/carryOut.ts'
import {
  ABORTED_PATIENCE_MS,
  createRunner,
  type Runner,
  type RunnerMetrics,
  type Source,
  STOP_PATIENCE_MS,
} from '../../../jobs/runner.ts'
import { doubledMs } from '../../../lib/backoff.ts'
import { type RandomBytes, uuidV7 } from '../../../lib/ids.ts'
import type { Log } from '../../../lib/log.ts'
import { MINUTE_MS, SECOND_MS } from '../../../lib/time.ts'
import { ChainFailure } from '../chains/chain.ts'
import { type ScreenDependencies, screenTransfer } from '../screening/screen.ts'
import { claimTransfers } from '../transfers/decide.ts'
import type { Transfer } from '../transfers/transfer.ts'
import { finalMovesAfterMs } from './finality.ts'
import { createStepLength } from './stepLength.ts'
import { claimChains, noteChainLook, renewChain } from './store.ts'
import { type Looked, type WatchDependencies, type WatchedChain, watchChain } from './watch.ts'

const POLL_MS = SECOND_MS

/** A process that has not said anything of a chain for so long is dead, or as good as that: another takes the chain. */
const LEASE_MS = MINUTE_MS
const RENEW_MS = 20 * SECOND_MS

/** Longer than a screening may take. Nobody else takes the transfer before. */
const SCREENING_MS = MINUTE_MS
const SCREENINGS_AT_ONCE = 8

/** A chain that can't be read is tried again after its usual pause, then twice as late each time. */
const FAILED_LATEST_MS = MINUTE_MS

export interface DepositRunnerDependencies extends WatchDependencies, ScreenDependencies {
  readonly random: RandomBytes
  readonly log: Log
  readonly settings: WatchDependencies['settings'] & ScreenDependencies['settings']
  readonly chains: readonly (Omit<WatchedChain, 'step'> & { readonly pollMs: number })[]
  readonly metrics?: RunnerMetrics | undefined
}

type DepositWork =
  | { readonly kind: 'chain'; readonly chain: DepositChain; readonly lease: string }
  | { readonly kind: 'transfer'; readonly transfer: Transfer }

/** Makes the runner that watches chains and screens what has come. Any number of processes have one. */
export function createDepositRunner(dependencies: DepositRunnerDependencies): Runner {
  const { database, clock, log, metrics } = dependencies
  return createRunner<DepositWork>({
    clock,
    log,
    name: 'deposits',
    pollMs: POLL_MS,
    patienceMs: STOP_PATIENCE_MS,
    abortedPatienceMs: ABORTED_PATIENCE_MS,
    sources: [watchSource(dependencies), screeningSource(dependencies)],
    lease: {
      renewMs: RENEW_MS,
      // A transfer is claimed for longer than all of its screening takes.
      renew: async (work) =>
        work.kind === 'transfer' || renewChain(database, work.chain, work.lease, clock.now() + LEASE_MS),
      giveBack: async (work) => {
        if (work.kind === 'chain') await renewChain(database, work.chain, work.lease, clock.now())
      },
    },
    idOf: (work) => (work.kind === 'chain' ? work.chain : work.transfer.transactionHash),
    metrics,
  })
}

function watchSource(dependencies: DepositRunnerDependencies): Source<DepositWork> {
  const { database, clock, random } = dependencies
  const chains = dependencies.chains.map((each) => ({ ...each, step: createStepLength(each.blockRange) }))
  const names = chains.map(({ chain }) => chain)
  const memory: LookMemory = { failures: new Map(), notes: new Map() }
  return {
    kind: 'deposit_chain',
    atOnce: names.length,
    makesDue: () => true,
    async claim({ room, begin }) {
      const nowMs = clock.now()
      const lease = uuidV7(nowMs, random)
      const claimed = await claimChains(database, names, { nowMs, untilMs: nowMs + LEASE_MS }, lease, room)
      for (const chain of claimed) begin({ kind: 'chain', chain, lease })
      return false
    },
    async work(work, signal) {
      const watched = chains.find(({ chain }) => work.kind === 'chain' && chain === work.chain)
      return work.kind === 'chain' && watched !== undefined
        ? look(dependencies, watched, work.lease, memory, signal)
        : 'dead'
    },
  }
}

/** The memory that a process has of its looks, so that it logs only changes. */
interface LookMemory {
  /** Looks that failed in a row. */
  readonly failures: Map<DepositChain, number>
  /** The notes of the last look that did not fail. */
  readonly notes: Map<DepositChain, ReadonlySet<LookNote>>
}

type LookNote = 'shortened' | 'still'

/** Looks at a chain, and writes down when it is looked at next. */
async function look(
  dependencies: DepositRunnerDependencies,
  watched: WatchedChain & { readonly pollMs: number },
  lease: string,
  memory: LookMemory,
  signal: AbortSignal,
): Promise<JobOutcome> {
  const { database, clock, log } = dependencies
  const { chain, pollMs } = watched
  try {
    const looked = await watchChain(dependencies, watched, signal)
    const { isBehind, newFailure } = looked
    const atMs = clock.now()
    if (newFailure !== null)
      log.warn(
        { chain, trouble: newFailure.trouble, reason: newFailure.message },
        'deposits: what is not final could not be shown; what is final is credited all the same',
      )
    if (memory.failures.delete(chain)) log.info({ chain }, 'deposits: the chain is read again')
    const dueAtMs = isBehind ? atMs : atMs + pollMs
    const finalMovedAtMs = await noteChainLook(database, chain, lease, { ...looked, atMs, dueAtMs })
    const isStill = finalMovedAtMs !== null && finalMovedAtMs < finalMovesAfterMs(chain, pollMs, atMs)
    logNotes(log, watched, looked, memory, isStill)
    return 'succeeded'
  } catch (error) {
    // Another process goes on with the chain.
    if (signal.aborted) throw error
    const failed = memory.failures.get(chain) ?? 0
    memory.failures.set(chain, failed + 1)
    if (error instanceof ChainFailure) logFailure(log, chain, error, failed)
    const atMs = clock.now()
    const dueAtMs = atMs + doubledMs(pollMs, Math.max(FAILED_LATEST_MS, pollMs), failed)
    // A failure of the database fails the look too, such as a statement that took too long.
    await noteChainLook(database, chain, lease, { headBlock: null, finalBlock: null, atMs, dueAtMs })
    if (error instanceof ChainFailure) return 'failed'
    throw error
  }
}

/** Logs what is new since the last look: that ranges were too long, or that the final block stands still. */
function logNotes(
  log: Log,
  { chain, step }: WatchedChain,
  { finalBlock, shortened }: Looked,
  { notes }: LookMemory,
  isStill: boolean,
): void {
  const before = notes.get(chain) ?? new Set()
  const found = new Set<LookNote>([
    ...(shortened > 0 ? ['shortened' as const] : []),
    ...(isStill ? ['still' as const] : []),
  ])
  notes.set(chain, found)
  if (found.has('shortened') && !before.has('shortened'))
    log.warn(
      { chain, blocks: step.blocks() },
      'deposits: a chain has more transactions than are read at once, perhaps a flood; it is read in shorter steps',
    )
  if (found.has('still') && !before.has('still'))
    log.error(
      { chain, finalBlock },
      'deposits: the final block of a chain stands still, and so do its credits; no deposit is begun until it moves: look at its nodes',
    )
}

function logFailure(log: Log, chain: DepositChain, { trouble, message: reason }: ChainFailure, failed: number): void {
  const isSerious = trouble === 'wrong' || trouble === 'disagree'
  if (failed > 0 && trouble !== 'disagree') return
  log[isSerious ? 'error' : 'warn'](
    { chain, trouble, reason },
    'deposits: a chain can’t be read; nothing of it is credited, and no deposit begun, until it can',
  )
}

function screeningSource(dependencies: DepositRunnerDependencies): Source<DepositWork> {
  const { clock } = dependencies
  return {
    kind: 'deposit_screening',
    atOnce: SCREENINGS_AT_ONCE,
    async claim({ room, begin }) {
      const claimed = await claimTransfers(dependencies, clock.now() + SCREENING_MS, room)
      for (const transfer of claimed) begin({ kind: 'transfer', transfer })
      return claimed.length > 0
    },
    async work(work) {
      if (work.kind === 'transfer') await screenTransfer(dependencies, work.transfer)
      return 'succeeded'
    },
  }
}
