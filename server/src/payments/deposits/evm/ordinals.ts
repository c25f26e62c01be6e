import { mapAtMost } from '../../../lib/mapAtMost.ts'
import { ChainFailure, type ChainTransfer } from '../chains/chain.ts'
import { type PacedNode, QUESTIONS_AT_ONCE } from '../chains/pace.ts'
import type { LargeAnswers } from './largeAnswers.ts'
import { receipt } from './shapes.ts'

/** Nearly all receipts are shorter. One that is not is asked for by itself: several of them would fill the memory. */
const RECEIPT_BYTES_MOST = 2 * 1024 * 1024

/** A transaction can fill as much with events that nobody asked for. */
const LARGE_RECEIPT_BYTES_MOST = 64 * 1024 * 1024

/** Places that are remembered of one node. Blocks that are not final are read again with each look. */
const REMEMBERED_MOST = 10_000

/** An event, by its place in its block. */
type Placed = Omit<ChainTransfer, 'ordinal'> & { readonly logIndex: number }

interface Asking {
  readonly node: PacedNode
  readonly readLarge: LargeAnswers['receipt']
}

/** Finds the places of events within their transactions, as one node tells them. */
export interface Ordinals {
  /**
   * Puts the place in the transaction in place of that in the block, which changes where the transaction moves to another one. Throws
   * `moved` where the node has a transaction elsewhere by now.
   */
  number(node: PacedNode, transfers: readonly Placed[]): Promise<ChainTransfer[]>
}

/** Makes the memory of one node. A transaction in one block always has the same places. */
export function createOrdinals(readLarge: LargeAnswers['receipt']): Ordinals {
  const known = new Map<string, number>()
  return {
    async number(node, transfers) {
      const found = new Map<string, number>()
      const missing = new Map<string, Placed[]>()
      for (const transfer of transfers) {
        const ordinal = known.get(nameOf(transfer))
        if (ordinal !== undefined) found.set(nameOf(transfer), ordinal)
        else addTo(missing, transactionOf(transfer), transfer)
      }
      try {
        await readAll({ node, readLarge }, [...missing.values()], found)
      } finally {
        // Also where a node was given up: the next look goes on behind what it has told.
        for (const [name, ordinal] of found) known.set(name, ordinal)
        for (const name of known.keys()) {
          if (known.size <= REMEMBERED_MOST) break
          known.delete(name)
        }
      }
      return transfers.map(({ logIndex, ...transfer }) => {
        const ordinal = found.get(nameOf({ ...transfer, logIndex }))
        if (ordinal === undefined) throw moved()
        return { ...transfer, ordinal }
      })
    },
  }
}

function addTo(lists: Map<string, Placed[]>, name: string, transfer: Placed): void {
  const list = lists.get(name)
  if (list === undefined) lists.set(name, [transfer])
  else list.push(transfer)
}

/** Adds the places of events to those that were found, transaction by transaction; of large ones one after the other. */
async function readAll(asking: Asking, missing: readonly Placed[][], found: Map<string, number>): Promise<void> {
  const large: Placed[][] = []
  const add = (places: readonly [string, number][]) => {
    for (const [name, ordinal] of places) found.set(name, ordinal)
  }
  await mapAtMost(missing, QUESTIONS_AT_ONCE, async (ofOne) => {
    try {
      add(await readOrdinals(asking, ofOne, RECEIPT_BYTES_MOST))
    } catch (error) {
      if (!(error instanceof ChainFailure) || error.trouble !== 'too_large') throw error
      large.push(ofOne)
    }
  })
  for (const ofOne of large) add(await readOrdinals(asking, ofOne, LARGE_RECEIPT_BYTES_MOST))
}

async function readOrdinals(
  { node, readLarge }: Asking,
  placed: readonly Placed[],
  bytesMost: number,
): Promise<[string, number][]> {
  const [first] = placed
  if (first === undefined) return []
  const read = await node.ask('eth_getTransactionReceipt', [first.transactionHash], receipt.nullable(), {
    ...{ bytesMost, readLarge },
  })
  if (read === null || read.blockHash !== first.block.hash) throw moved()
  const places = new Map(read.logs.map(({ logIndex }, ordinal) => [logIndex, ordinal]))
  return placed.map((each) => {
    const ordinal = places.get(each.logIndex)
    if (ordinal === undefined) throw moved()
    return [nameOf(each), ordinal]
  })
}

function transactionOf({ transactionHash, block }: Placed): string {
  return `${transactionHash} ${block.hash}`
}

function nameOf(placed: Placed): string {
  return `${transactionOf(placed)} ${placed.logIndex}`
}

function moved(): ChainFailure {
  return new ChainFailure('moved', 'the chain was reorganized while it was read')
}
