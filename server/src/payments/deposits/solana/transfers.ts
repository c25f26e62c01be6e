/** Reads what tokens have come to token accounts of Solana. */

import type { DepositAsset } from '../../../catalog/depositChain.ts'
import type { Clock } from '../../../lib/time.ts'
import { type BlockRange, type ChainTransfer, UNITS_MOST } from '../chains/chain.ts'
import { pacedNode } from '../chains/pace.ts'
import type { ChainNode } from '../chains/rpc.ts'
import type { GainingTransaction, TransactionGains } from './gains.ts'
import { listTransactions } from './listing.ts'
import type { ListingPlaces } from './places.ts'
import { slotNumber } from './shapes.ts'

/**
 * So many slots, some two minutes, are read again with each look: a node writes its lists of transactions a little after a block, and may
 * not have all of them when the block is final.
 */
export const SLOTS_READ_AGAIN = 300

/** The most transfers of a range that are held at once. If there are more, the caller reads a shorter range. */
const TRANSFERS_MOST = 5_000

/**
 * The most transfers of the slots that are read again. A shorter range would not have fewer of them, so the largest are taken: nearly all
 * are known already.
 */
const AGAIN_MOST = 2_000

/** The account in which a watched address takes a token. */
export interface TokenAccount {
  readonly account: string
  readonly address: string
  readonly token: string
  readonly asset: DepositAsset
}

/** One node, and what it has told before. */
export interface SolanaReading {
  readonly node: ChainNode
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly gains: TransactionGains
  readonly places: ListingPlaces
}

/**
 * Asks a node for what has come to these accounts, in the order of the chain; also for what came up to `SLOTS_READ_AGAIN` slots before the
 * range, of which the largest are told. Transactions that failed have moved nothing. Throws `too_many` of several slots.
 */
export async function readSolanaTransfers(
  { node, clock, gains, places }: SolanaReading,
  accounts: readonly TokenAccount[],
  range: BlockRange,
): Promise<ChainTransfer[]> {
  const paced = pacedNode(node, clock)
  const againFrom = Math.max(range.from - SLOTS_READ_AGAIN, 0)
  const first = await paced.ask('getFirstAvailableBlock', [], slotNumber)
  if (first > againFrom)
    throw node.fail('refused', `keeps nothing from before slot ${first}, and ${range.from} is needed`)
  const byAccount = new Map(accounts.map((each) => [each.account, each]))
  const listed = await listTransactions({ node: paced, places }, [...byAccount.keys()], range, againFrom)
  const transfers = (await gains.read(paced, listed)).flatMap((each) => toTransfers(each, byAccount))
  const own = transfers.filter(({ block }) => block.number >= range.from)
  if (own.length > TRANSFERS_MOST && range.from < range.to)
    throw node.fail('too_many', 'has more transfers in these blocks than are held at once')
  const again = transfers.filter(({ block }) => block.number < range.from).sort(largestFirst)
  return [...again.slice(0, AGAIN_MOST), ...own].sort((one, other) => one.block.number - other.block.number)
}

/** Returns the transfers of a transaction to watched accounts. */
function toTransfers(
  { signature: transactionHash, slot, gains }: GainingTransaction,
  accounts: ReadonlyMap<string, TokenAccount>,
): ChainTransfer[] {
  return gains.flatMap(({ account, mint, owner, units, ordinal, senders: [sender = '', ...otherSenders] }) => {
    const watched = accounts.get(account)
    if (watched === undefined || mint !== watched.token) return []
    const { address, token, asset } = watched
    // The holder of a token account's key may give the account away. Then it is not the operator's any more.
    if ((owner ?? address) !== address) return []
    // A final slot has one block.
    const block = { number: slot, hash: String(slot) }
    const from = { sender, otherSenders }
    return [
      { transactionHash, ordinal, block, token, asset: units > UNITS_MOST ? null : asset, ...from, address, units },
    ]
  })
}

/** By all that names them, so that two nodes that tell the same give the same. */
function largestFirst(one: ChainTransfer, other: ChainTransfer): number {
  if (one.units !== other.units) return one.units > other.units ? -1 : 1
  if (one.transactionHash !== other.transactionHash) return one.transactionHash < other.transactionHash ? -1 : 1
  return one.ordinal - other.ordinal
}
