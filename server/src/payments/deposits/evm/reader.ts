import {
  DEPOSIT_ASSETS,
  type DepositChainSettings,
  EVM_CHAIN_IDS,
  type EvmChain,
} from '../../../catalog/depositChain.ts'
import type { Log } from '../../../lib/log.ts'
import { agreeOnHead, createFinalNodes } from '../chains/agree.ts'
import { type BlockReference, ChainFailure, type ChainReader } from '../chains/chain.ts'
import { askAny, askTwo, type ChainNode, type ChainNodeOptions, createNodes, readyFirst } from '../chains/rpc.ts'
import { TOKEN_DECIMALS } from '../deposit/deposit.ts'
import { createLargeAnswers } from './largeAnswers.ts'
import { createOrdinals, type Ordinals } from './ordinals.ts'
import { addressToTopic, block, blockNumber, callResult, readText, wordToBigint } from './shapes.ts'
import { readNewTransfers, readOtherTransfers, readTransfers } from './transfers.ts'

/** The first four bytes of the hashes of `decimals()`, `symbol()` and `balanceOf(address)`. */
const DECIMALS = '0x313ce567'
const SYMBOL = '0x95d89b41'
const BALANCE_OF = '0x70a08231'

/** Of a block with the hashes of its transactions, of which there may be ten thousands. */
const BLOCK_BOUNDS = { bytesMost: 4 * 1024 * 1024 }

export interface EvmReaderOptions extends Pick<ChainNodeOptions, 'clock' | 'send' | 'onError' | 'onFinal'> {
  readonly settings: Pick<DepositChainSettings, 'rpcUrls' | 'tokens'> & { readonly chain: EvmChain }
  readonly log: Log
}

/** Makes the reader of a chain of the EVM. It asks nobody yet. */
export function createEvmReader({ settings, log, ...options }: EvmReaderOptions): ChainReader {
  const { chain, rpcUrls, tokens } = settings
  const { clock } = options
  const nodes = createNodes({ ...options, chain, urls: rpcUrls })
  const large = createLargeAnswers(log)
  const memories = new Map<ChainNode, Ordinals>(nodes.map((node) => [node, createOrdinals(large.receipt)]))
  const readingOf = (node: ChainNode) => ({
    node,
    clock,
    tokens,
    large,
    ordinals: memories.get(node) ?? createOrdinals(large.receipt),
  })
  const finalNodes = createFinalNodes(nodes, newestFinal, blockAt)
  let isChecked = false
  return {
    async check() {
      if (isChecked) return
      await checkChain(nodes, settings, log)
      isChecked = true
    },
    finalBlock: finalNodes.finalBlock,
    headBlock: () => agreeOnHead(nodes, (node) => node.ask('eth_blockNumber', [], blockNumber)),
    finalTransfers: (addresses, range) =>
      finalNodes.transfersIn(range, (node) => readTransfers(readingOf(node), addresses, range)),
    newTransfers: (addresses, range) => askAny(nodes, (node) => readNewTransfers(readingOf(node), addresses, range)),
    async otherTransfers(addresses, range) {
      const [node] = readyFirst(finalNodes.nodesFor(range))
      return node === undefined ? [] : readOtherTransfers({ node, tokens, large }, addresses, range)
    },
    async balanceOf(token, address) {
      const data = `${BALANCE_OF}${addressToTopic(address).slice(2)}`
      const balance = wordToBigint(await askTwo(nodes, (node) => call(node, token, data), String))
      if (balance === null) throw new ChainFailure('malformed', `a contract on ${chain} tells no balance`)
      return balance
    },
  }
}

function call(node: ChainNode, to: string, data: string): Promise<string> {
  return node.ask('eth_call', [{ to, data }, 'latest'], callResult)
}

/** Refuses another chain, and tokens of other decimals. Where there are two nodes, two agree that it is so. */
async function checkChain(
  nodes: readonly ChainNode[],
  { chain, tokens }: EvmReaderOptions['settings'],
  log: Log,
): Promise<void> {
  const id = await askTwo(nodes, (node) => node.ask('eth_chainId', [], blockNumber), String)
  const expected = EVM_CHAIN_IDS[chain]
  if (id !== expected) throw wrong(`the nodes of ${chain} are of the chain ${id}, not ${expected}`)
  for (const asset of DEPOSIT_ASSETS) {
    const token = tokens[asset]
    if (token === undefined) continue
    const decimals = wordToBigint(await askTwo(nodes, (node) => call(node, token, DECIMALS), String))
    if (decimals !== BigInt(TOKEN_DECIMALS))
      throw wrong(`the contract of ${asset} on ${chain} counts in ${decimals ?? 'no'} decimals, not ${TOKEN_DECIMALS}`)
    const symbol = readText(await askAny(nodes, (node) => call(node, token, SYMBOL)))?.slice(0, 32)
    if (symbol?.toLowerCase() !== asset)
      log.warn({ chain, asset, symbol }, 'deposits: the contract of a token has another symbol; its address counts')
  }
}

function wrong(message: string): ChainFailure {
  return new ChainFailure('wrong', message)
}

function newestFinal(node: ChainNode): Promise<BlockReference> {
  return node.ask('eth_getBlockByNumber', ['finalized', false], block, BLOCK_BOUNDS)
}

function blockAt(node: ChainNode, number: number): Promise<BlockReference> {
  return node.ask('eth_getBlockByNumber', [`0x${number.toString(16)}`, false], block, BLOCK_BOUNDS)
}
