/** One look at a chain: settles what is final, shows what is not. */

import type { DepositChainSettings } from '../../../catalog/depositChain.ts'
import type { DepositSettings } from '../../../catalog/settings.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { type Clock, DAY_MS, MINUTE_MS, SECOND_MS } from '../../../lib/time.ts'
import { type BlockRange, ChainFailure, type ChainReader, type ChainTransfer } from '../chains/chain.ts'
import { UNITS_PER_CENT } from '../deposit/deposit.ts'
import { watchedAddresses } from '../deposit/watched.ts'
import { applyFinal, applyNew } from '../transfers/apply.ts'
import { expireDeposits, forgetDropped } from '../transfers/restate.ts'
import { keepOtherTokens } from '../wrongTokens/keep.ts'
import type { StepLength } from './stepLength.ts'
import { beginCursor, lockCursor, moveCursor, noteCaughtUp, selectCursor } from './store.ts'

/** Addresses that a node is asked for at once. */
const ADDRESSES_AT_ONCE = 500

/** Blocks are settled so long after they were made, at the very most: addresses are watched for as much longer. */
const SETTLED_AFTER_MS = DAY_MS

/** Ranges of blocks that one look settles; the next look goes on. */
const RANGES_AT_ONCE = 50

/** No range of blocks is begun so long after a look has: the next look goes on. */
const LOOK_MS = MINUTE_MS

/** Transfers that are held at once, to all addresses. Of more, the range is made shorter. */
const TRANSFERS_AT_ONCE = 10_000

/** Blocks are final sooner than this, on any chain. A head further away is a node's mistake. */
const HEAD_AHEAD_MOST = 200_000

/** Wrong tokens are looked for so long in one look. */
const OTHERS_MS = 10 * SECOND_MS

export interface WatchDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly settings: Pick<DepositSettings, 'minTransferCents'>
}

export interface WatchedChain extends Pick<DepositChainSettings, 'chain' | 'blockRange'> {
  readonly reader: ChainReader
  /** Of at most `blockRange` blocks. */
  readonly step: StepLength
}

/** How a look has ended. */
export interface Looked {
  readonly headBlock: number
  readonly finalBlock: number
  /** Ranges of blocks that were too long, and are read in shorter ones. */
  readonly shortened: number
  /** There are final blocks that were not settled yet. */
  readonly isBehind: boolean
  /** Why the newer blocks could not be shown; null: they were. Nothing is credited from them. */
  readonly newFailure: ChainFailure | null
}

/**
 * Looks at a chain. Several processes may do so at once: the cursor is moved by one of them, and the others' results are given up. Throws
 * `ChainFailure` where the chain can't be read; what was settled before that stays. A look that has blocks to settle and settles none fails.
 */
export async function watchChain(
  dependencies: WatchDependencies,
  watched: WatchedChain,
  signal: AbortSignal,
): Promise<Looked> {
  const { database, clock } = dependencies
  const { chain, reader } = watched
  await reader.check()
  // Before the addresses are read: whoever pays to an address got it before, so no payment in these blocks is missed.
  const lookedAtMs = clock.now()
  const final = await reader.finalBlock()
  await beginCursor(database, chain, final.number, lookedAtMs)
  const { isSettled, shortened } = await settle(dependencies, watched, final.number, signal)
  if (isSettled) await noteCaughtUp(database, chain, final.number, lookedAtMs)
  signal.throwIfAborted()
  const shown = isSettled ? await tryToShow(dependencies, watched, final.number, signal) : final.number
  await expireDeposits(database, chain, clock.now())
  await forgetDropped(database, chain, clock.now())
  const newFailure = shown instanceof ChainFailure ? shown : null
  const headBlock = shown instanceof ChainFailure ? final.number : shown
  return { headBlock, finalBlock: final.number, shortened, isBehind: !isSettled, newFailure }
}

/** Shows what is not final, and returns the newest block; or why that failed, which is no reason to credit nothing. */
async function tryToShow(
  dependencies: WatchDependencies,
  watched: WatchedChain,
  settledBlock: number,
  signal: AbortSignal,
): Promise<number | ChainFailure> {
  try {
    const headBlock = await watched.reader.headBlock()
    if (headBlock > settledBlock + HEAD_AHEAD_MOST)
      return new ChainFailure(
        'malformed',
        `the newest block is said to be ${headBlock - settledBlock} behind the final one`,
      )
    // Also where no block is newer: what was in one that the chain has taken back is dropped.
    if (headBlock >= settledBlock) await showNew(dependencies, watched, settledBlock, headBlock, signal)
    return headBlock
  } catch (error) {
    if (error instanceof ChainFailure) return error
    throw error
  }
}

function leastUnitsOf({ settings }: WatchDependencies): bigint {
  return BigInt(settings.minTransferCents) * UNITS_PER_CENT
}

/** How the settling of final blocks has ended. */
interface Settled extends Pick<Looked, 'shortened'> {
  /** The cursor is at the final block, or behind it. */
  readonly isSettled: boolean
}

/** Settles the final blocks behind the cursor, range by range. Throws `too_many` where it could not settle any of them. */
async function settle(
  dependencies: WatchDependencies,
  watched: WatchedChain,
  finalBlock: number,
  signal: AbortSignal,
): Promise<Settled> {
  const { database, clock } = dependencies
  const { chain, reader, step } = watched
  const leastUnits = leastUnitsOf(dependencies)
  const untilMs = clock.monotonicMs() + LOOK_MS
  const begun = await selectCursor(database, chain)
  let othersMs = OTHERS_MS
  let shortened = 0
  for (let ranges = 0; ranges < RANGES_AT_ONCE && clock.monotonicMs() < untilMs; ranges += 1) {
    signal.throwIfAborted()
    const { settledBlock, caughtUpAtMs } = await selectCursor(database, chain)
    if (settledBlock >= finalBlock) return { isSettled: true, shortened }
    const range = { from: settledBlock + 1, to: Math.min(settledBlock + step.blocks(), finalBlock) }
    const transfers = await gatherFinal(database, watched, caughtUpAtMs, range)
    if (transfers === 'too_many') {
      step.shorten(range)
      shortened += 1
      continue
    }
    step.lengthen(range)
    // Nobody is watched for: the whole way is one step.
    const toBlock = transfers === null ? finalBlock : range.to
    await database.transaction(async (tx) => {
      if (!(await lockCursor(tx, chain, settledBlock))) return
      await applyFinal(tx, chain, { toBlock, transfers: transfers ?? [], leastUnits, nowMs: clock.now() })
      await moveCursor(tx, chain, toBlock)
    })
    if (transfers !== null && reader.otherTransfers !== undefined)
      othersMs = await reportOthers(dependencies, watched, { caughtUpAtMs, range, longestMs: othersMs })
  }
  const { settledBlock } = await selectCursor(database, chain)
  if (settledBlock < finalBlock && settledBlock === begun.settledBlock)
    throw new ChainFailure('too_many', 'there is so much in the next blocks that none was settled in time')
  return { isSettled: settledBlock >= finalBlock, shortened }
}

async function gatherFinal(
  database: Database,
  { chain, reader }: WatchedChain,
  watchedAtMs: number,
  range: BlockRange,
): Promise<ChainTransfer[] | null | 'too_many'> {
  try {
    return await gather(database, chain, watchedAtMs, range, (addresses) => reader.finalTransfers(addresses, range))
  } catch (error) {
    if (error instanceof ChainFailure && error.trouble === 'too_many' && range.from < range.to) return 'too_many'
    throw error
  }
}

/**
 * Looks for wrong tokens in blocks that were settled. A failure is let go: the list is for the operator's information
 * alone. Returns the time that is left for it in this look.
 */
async function reportOthers(
  { database, clock }: WatchDependencies,
  { chain, reader }: WatchedChain,
  { caughtUpAtMs, range, longestMs }: { caughtUpAtMs: number; range: BlockRange; longestMs: number },
): Promise<number> {
  const begunMs = clock.monotonicMs()
  const leftMs = () => longestMs - (clock.monotonicMs() - begunMs)
  try {
    const parts = watchedAddresses(database, chain, caughtUpAtMs - SETTLED_AFTER_MS, ADDRESSES_AT_ONCE)
    for await (const addresses of parts) {
      if (leftMs() <= 0) break
      await keepOtherTokens(database, chain, (await reader.otherTransfers?.(addresses, range)) ?? [], clock.now())
    }
  } catch (error) {
    if (!(error instanceof ChainFailure)) throw error
    return 0
  }
  return leftMs()
}

/** Shows the transfers in blocks that may be taken back, all of them. */
async function showNew(
  dependencies: WatchDependencies,
  { chain, reader, blockRange }: WatchedChain,
  settledBlock: number,
  headBlock: number,
  signal: AbortSignal,
): Promise<void> {
  const { database, clock } = dependencies
  const { caughtUpAtMs } = await selectCursor(database, chain)
  const transfers: ChainTransfer[] = []
  for (const range of rangesOf(settledBlock + 1, headBlock, blockRange)) {
    signal.throwIfAborted()
    const ask = (addresses: readonly string[]) => reader.newTransfers(addresses, range)
    for (const transfer of (await gather(database, chain, caughtUpAtMs, range, ask)) ?? []) transfers.push(transfer)
    if (transfers.length > TRANSFERS_AT_ONCE) throw tooMany()
  }
  await database.transaction(async (tx) => {
    if (!(await lockCursor(tx, chain, settledBlock))) return
    await applyNew(tx, chain, {
      headBlock,
      transfers,
      leastUnits: leastUnitsOf(dependencies),
      nowMs: clock.now(),
    })
  })
}

function rangesOf(from: number, to: number, blockRange: number): BlockRange[] {
  const count = Math.min(Math.ceil((to - from + 1) / blockRange), RANGES_AT_ONCE)
  return Array.from({ length: count }, (_, index) => ({
    from: from + index * blockRange,
    to: Math.min(from + (index + 1) * blockRange - 1, to),
  }))
}

function tooMany(): ChainFailure {
  return new ChainFailure('too_many', 'there are more transfers in these blocks than are held at once')
}

/** Asks for the transfers to every watched address. Null: there is none. Throws `too_many` of several blocks. */
async function gather(
  database: Database,
  chain: string,
  watchedAtMs: number,
  range: BlockRange,
  ask: (addresses: readonly string[]) => Promise<readonly ChainTransfer[]>,
): Promise<ChainTransfer[] | null> {
  let transfers: ChainTransfer[] | null = null
  let inRange = 0
  for await (const addresses of watchedAddresses(database, chain, watchedAtMs - SETTLED_AFTER_MS, ADDRESSES_AT_ONCE)) {
    transfers ??= []
    for (const transfer of await ask(addresses)) {
      transfers.push(transfer)
      // A shorter range has no fewer of those before it.
      if (transfer.block.number >= range.from) inRange += 1
    }
    if (inRange > TRANSFERS_AT_ONCE && range.from < range.to) throw tooMany()
  }
  return transfers
}
