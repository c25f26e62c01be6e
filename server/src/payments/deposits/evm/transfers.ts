/** Reads transfers of ERC-20 tokens from the events of a chain. */

import type { DepositAsset, TokenContracts } from '../../../catalog/depositChain.ts'
import { type Clock, SECOND_MS } from '../../../lib/time.ts'
import { type BlockRange, ChainFailure, type ChainTransfer, largestOfEach, UNITS_MOST } from '../chains/chain.ts'
import { pacedNode } from '../chains/pace.ts'
import type { AskBounds, ChainNode } from '../chains/rpc.ts'
import type { LargeAnswers } from './largeAnswers.ts'
import type { Ordinals } from './ordinals.ts'
import {
  type AskedEvents,
  addressToTopic,
  type EvmLog,
  eventsOf,
  TRANSFER_TOPIC,
  topicToAddress,
  wordToBigint,
} from './shapes.ts'

/** A larger answer is asked for in parts. */
const PART_BYTES_MOST = 4 * 1024 * 1024

/**
 * Of what can't be asked for in parts: the transfers of one token to one address in one block. Anybody fills a block with so many for a few
 * dollars, and a block that can't be read would stop the deposits of its chain.
 */
const WHOLE_BYTES_MOST = 64 * 1024 * 1024

/** A node that refuses ranges until they are short is given up for this look after so long. */
const RANGE_MS = 30 * SECOND_MS

/** Transfers that are held at once. Of more, the range of blocks is to be shorter. */
const TRANSFERS_MOST = 5_000

/** So many larger answers of one node are read for a range of several blocks. One with more is to be shorter. */
const WHOLE_ANSWERS_MOST = 1

/** Other tokens are looked for so long, and in so large an answer; what does not fit is not reported. */
const OTHERS_BOUNDS: AskBounds = { bytesMost: 1024 * 1024, wholeMs: 3 * SECOND_MS, isOptional: true }

export interface TransferReading {
  readonly node: ChainNode
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly tokens: TokenContracts
  readonly ordinals: Ordinals
  readonly large: LargeAnswers
}

type LogReading = Pick<TransferReading, 'node' | 'large'>

type Numbered = Omit<ChainTransfer, 'ordinal'> & { readonly logIndex: number }

const hexOf = (number: number) => `0x${number.toString(16)}`

/**
 * Asks a node for the transfers to these addresses of tokens that are taken. Only events of those contracts are asked for: anybody can make
 * any number of others. Throws `too_many` where there are more than {@link TRANSFERS_MOST} in several blocks.
 */
export async function readTransfers(
  reading: TransferReading,
  addresses: readonly string[],
  range: BlockRange,
): Promise<ChainTransfer[]> {
  return numberAll(reading, await readNumbered(reading, addresses, range))
}

/** Asks a node for the same in blocks that may be taken back: of each address the largest transfers alone. */
export async function readNewTransfers(
  reading: TransferReading,
  addresses: readonly string[],
  range: BlockRange,
): Promise<ChainTransfer[]> {
  return numberAll(reading, largestOfEach(await readNumbered(reading, addresses, range)))
}

/** A node that is slow with the receipts of a flood is given up as well. */
function numberAll({ node, clock, ordinals }: TransferReading, found: readonly Numbered[]): Promise<ChainTransfer[]> {
  return ordinals.number(pacedNode(node, clock), found)
}

/** Asks a node once for transfers of tokens that are not taken. Their ordinals are their places in their blocks, which are final. */
export async function readOtherTransfers(
  { tokens, ...reading }: Pick<TransferReading, 'node' | 'tokens' | 'large'>,
  addresses: readonly string[],
  range: BlockRange,
): Promise<ChainTransfer[]> {
  const own = new Set(Object.values(tokens))
  const found = await askLogs(reading, { ...range, contracts: [], receivers: addresses }, OTHERS_BOUNDS)
  const others = found.flatMap((log) => (own.has(log.address) ? [] : toTransfer(log, tokens)))
  return largestOfEach(others).map(({ logIndex: ordinal, ...transfer }) => ({ ...transfer, ordinal }))
}

async function readNumbered(
  { node, clock, tokens, large }: TransferReading,
  addresses: readonly string[],
  range: BlockRange,
): Promise<Numbered[]> {
  const contracts = Object.values(tokens)
  // Without a contract a node would tell of all of them.
  if (contracts.length === 0) return []
  const transfers: Numbered[] = []
  let wholeAnswers = 0
  const untilMs = clock.monotonicMs() + RANGE_MS
  const waiting: AskedEvents[] = [{ ...range, contracts, receivers: addresses }]
  for (let filter = waiting.pop(); filter !== undefined; filter = waiting.pop()) {
    if (clock.monotonicMs() > untilMs) {
      node.pause()
      throw node.fail('away', 'takes too long over a range of blocks')
    }
    const halves = halvesOf(filter)
    let found = await readPart({ node, large }, filter, halves.length === 0)
    if (found === null && halves.length === 0) {
      if (wholeAnswers >= WHOLE_ANSWERS_MOST && range.from < range.to)
        throw node.fail('too_many', 'has several large answers for these blocks')
      wholeAnswers += 1
      found = await askLogs({ node, large }, filter, { bytesMost: WHOLE_BYTES_MOST })
    }
    if (found === null) waiting.push(...halves)
    // One by one: of a single block there may be more than a call takes arguments.
    else for (const log of found) transfers.push(...toTransfer(log, tokens))
    if (transfers.length > TRANSFERS_MOST && range.from < range.to)
      throw node.fail('too_many', 'has more transfers in these blocks than are held at once')
  }
  return transfers
}

/** The events of a filter; null where the answer is too large, or the node refuses it while it has halves. */
async function readPart(reading: LogReading, filter: AskedEvents, isWhole: boolean): Promise<EvmLog[] | null> {
  try {
    return await askLogs(reading, filter, { bytesMost: PART_BYTES_MOST })
  } catch (error) {
    if (!(error instanceof ChainFailure)) throw error
    if (error.trouble === 'too_large' || (error.trouble === 'refused' && !isWhole)) return null
    throw error
  }
}

function askLogs({ node, large }: LogReading, filter: AskedEvents, bounds: AskBounds): Promise<EvmLog[]> {
  const { from, to, contracts, receivers } = filter
  const asked = {
    fromBlock: hexOf(from),
    toBlock: hexOf(to),
    ...(contracts.length === 0 ? {} : { address: contracts }),
    topics: [TRANSFER_TOPIC, null, receivers.map(addressToTopic)],
  }
  return node.ask('eth_getLogs', [asked], eventsOf(filter), { ...bounds, readLarge: large.events(filter) })
}

/** Both halves of a filter, the later one first: of its blocks, in one block of its receivers, then of its contracts. */
function halvesOf(filter: AskedEvents): AskedEvents[] {
  const { from, to, receivers, contracts } = filter
  if (from < to) {
    const middle = Math.floor((from + to) / 2)
    return [
      { ...filter, from: middle + 1 },
      { ...filter, to: middle },
    ]
  }
  if (receivers.length > 1) return partsOf(receivers).map((part) => ({ ...filter, receivers: part }))
  return contracts.length > 1 ? partsOf(contracts).map((part) => ({ ...filter, contracts: part })) : []
}

function partsOf(list: readonly string[]): (readonly string[])[] {
  const middle = Math.ceil(list.length / 2)
  return [list.slice(middle), list.slice(0, middle)]
}

/** The transfer that an event tells of; none where it is no such event, or moves nothing. */
function toTransfer(log: EvmLog, tokens: TokenContracts): Numbered[] {
  const [event, from, to, ...more] = log.topics
  const [sender, address, units] = [topicToAddress(from), topicToAddress(to), wordToBigint(log.data)]
  if (event !== TRANSFER_TOPIC || more.length > 0 || sender === null || address === null) return []
  if (units === null || units === 0n) return []
  const asset = (Object.keys(tokens) as DepositAsset[]).find((each) => tokens[each] === log.address) ?? null
  return [
    {
      transactionHash: log.transactionHash,
      logIndex: log.logIndex,
      block: { number: log.blockNumber, hash: log.blockHash },
      token: log.address,
      asset: units > UNITS_MOST ? null : asset,
      sender,
      otherSenders: [],
      address,
      units,
    },
  ]
}
