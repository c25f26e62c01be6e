import type { DepositChain } from '../../../catalog/depositChain.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import type { ChainReader } from '../chains/chain.ts'
import { forwardCursor, rewindCursor } from './store.ts'

/**
 * Makes the watcher of a chain read it again from a block on, for every address that was ever given out on it.
 * Credited transfers stay so. Returns the block behind which it reads; null where the chain was never watched.
 */
export function rescanChain(
  db: Queryable,
  chain: DepositChain,
  fromBlock: number,
  nowMs: number,
): Promise<number | null> {
  return rewindCursor(db, chain, fromBlock, nowMs)
}

/**
 * Returns from which block on a chain can be read again, where that is behind the wanted one: the watcher would wait for nodes that keep
 * more. Null: from the wanted one. Throws `ChainFailure` where too few nodes tell.
 */
export async function firstBlockAfter(
  { firstBlock }: Pick<ChainReader, 'firstBlock'>,
  fromBlock: number,
): Promise<number | null> {
  const first = (await firstBlock?.()) ?? 0
  return first > fromBlock ? first : null
}

/** How putting a cursor forward has ended. */
export type SkippedBlocks =
  | { readonly kind: 'skipped'; readonly from: number; readonly to: number }
  /** The block is not final yet: everything up to it would be passed over unseen. */
  | { readonly kind: 'not_final'; readonly finalBlock: number }
  /** The chain is read from there on, or from further on; or it was never watched. */
  | { readonly kind: 'nothing' }

/**
 * Makes the watcher of a chain go on with a block, and pass over those before it that it has not read: nothing that came in them is
 * credited, unless they are read again. Throws `ChainFailure` where the nodes do not agree on what is final.
 */
export async function skipBlocks(
  db: Queryable,
  { chain, reader }: { readonly chain: DepositChain; readonly reader: Pick<ChainReader, 'finalBlock'> },
  toBlock: number,
  nowMs: number,
): Promise<SkippedBlocks> {
  const { number: finalBlock } = await reader.finalBlock()
  if (toBlock > finalBlock) return { kind: 'not_final', finalBlock }
  const before = await forwardCursor(db, chain, toBlock - 1, nowMs)
  return before === null ? { kind: 'nothing' } : { kind: 'skipped', from: before + 1, to: toBlock - 1 }
}
