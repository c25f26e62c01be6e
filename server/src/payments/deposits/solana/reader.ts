import { base58 } from '@scure/base'
import { DEPOSIT_ASSETS, type DepositChainSettings, SOLANA_GENESIS_HASH } from '../../../catalog/depositChain.ts'
import { agreeOnHead, createFinalNodes } from '../chains/agree.ts'
import { type BlockReference, ChainFailure, type ChainReader } from '../chains/chain.ts'
import { askTwo, type ChainNode, type ChainNodeOptions, createNodes } from '../chains/rpc.ts'
import { TOKEN_DECIMALS } from '../deposit/deposit.ts'
import { createTransactionGains, TRANSACTION_VERSION_MOST } from './gains.ts'
import { TOKEN_PROGRAM, tokenAccountOf } from './keys.ts'
import { createListingPlaces } from './places.ts'
import { account, accounts, blockOfSlot, hashText, latestBlock, signatures, slotNumber } from './shapes.ts'
import { readSolanaTransfers, SLOTS_READ_AGAIN, type SolanaReading, type TokenAccount } from './transfers.ts'

const CHAIN = 'solana'

/** Where the decimals stand in the data of a mint; in those of a token account its mint, its owner, and the amount, of 8 bytes. */
const DECIMALS_BYTE = 44
const MINT_BYTE = 0
const OWNER_BYTE = 32
const AMOUNT_BYTE = 64
const ADDRESS_BYTES = 32

/** Of the data of a mint or a token account; others may have megabytes. */
const ACCOUNT_BYTES_READ = 128

/** Nodes give up their first slots all the time: so many, ten minutes, are left for a rescan to begin. */
const KEPT_MARGIN_SLOTS = 1_500

/** Token accounts that are remembered, so that they are not computed with each look. */
const ACCOUNTS_MOST = 50_000

export interface SolanaReaderOptions extends Pick<ChainNodeOptions, 'clock' | 'send' | 'onError' | 'onFinal'> {
  readonly settings: Pick<DepositChainSettings, 'rpcUrls' | 'tokens'>
}

/** Reads Solana, by its final blocks alone. */
export interface SolanaReader extends ChainReader {
  /**
   * Returns whether an address, or one of its token accounts, is in any transaction, final or not. Where the
   * settings name two nodes, two agree. Throws {@link ChainFailure} where that can't be told.
   */
  hasHistory(address: string): Promise<boolean>
}

/** Makes the reader of Solana. It asks nobody yet. */
export function createSolanaReader({ settings, ...options }: SolanaReaderOptions): SolanaReader {
  const { rpcUrls, tokens } = settings
  const nodes = createNodes({ ...options, chain: CHAIN, urls: rpcUrls })
  const accountsOf = rememberAccounts(tokens)
  const readings = nodes.map((node) => ({
    node,
    clock: options.clock,
    gains: createTransactionGains(Object.values(tokens)),
    places: createListingPlaces(),
  }))
  const finalNodes = createFinalNodes(nodes, newestFinal, blockAt)
  let isChecked = false
  return {
    async check() {
      if (isChecked) return
      await checkChain(nodes, tokens)
      isChecked = true
    },
    finalBlock: finalNodes.finalBlock,
    headBlock: () => agreeOnHead(nodes, (node) => node.ask('getSlot', [{ commitment: 'confirmed' }], slotNumber)),
    async finalTransfers(addresses, range) {
      const accounts = addresses.flatMap(accountsOf)
      const ask = (node: ChainNode) => readSolanaTransfers(readingOf(readings, node), accounts, range)
      try {
        return await finalNodes.transfersIn(range, ask)
      } catch (error) {
        // Perhaps a node has told something wrong once, and would tell it right now.
        if (error instanceof ChainFailure && error.trouble === 'disagree')
          for (const { gains, places } of readings) {
            gains.forget()
            places.forget()
          }
        throw error
      }
    },
    newTransfers: async () => [],
    async balanceOf(token, address) {
      const tokenAccount = tokenAccountOf(address, token)
      return askTwo(nodes, async (node) => balanceIn(await readAccount(node, tokenAccount), token, address), String)
    },
    async hasHistory(address) {
      const places = [address, ...accountsOf(address).map((each) => each.account)]
      const questions = [
        // One whose transactions the nodes do not keep any more is mostly there still.
        (node: ChainNode) => isAnyThere(node, places),
        ...places.map((place) => (node: ChainNode) => isUsed(node, place)),
      ]
      const found = await Promise.all(questions.map((ask) => askTwo(nodes, ask, String)))
      return found.includes(true)
    },
    firstBlock: () => firstKept(nodes),
  }
}

function readingOf(readings: readonly SolanaReading[], node: ChainNode): SolanaReading {
  const found = readings.find((each) => each.node === node)
  if (found === undefined) throw new Error('deposits: a node of solana has no memory')
  return found
}

/** Refuses another chain, and mints of other decimals. Where there are two nodes, two agree that it is so. */
async function checkChain(nodes: readonly ChainNode[], tokens: DepositChainSettings['tokens']): Promise<void> {
  const genesis = await askTwo(nodes, (node) => node.ask('getGenesisHash', [], hashText), String)
  if (genesis !== SOLANA_GENESIS_HASH) throw wrong('the nodes of solana are of another chain, such as one for tests')
  for (const asset of DEPOSIT_ASSETS) {
    const mint = tokens[asset]
    if (mint === undefined) continue
    const { owner, decimals } = await askTwo(nodes, (node) => readMint(node, mint), JSON.stringify)
    if (owner !== TOKEN_PROGRAM) throw wrong(`the mint of ${asset} on solana is none of the token program`)
    if (decimals !== TOKEN_DECIMALS)
      throw wrong(`the mint of ${asset} on solana counts in ${decimals ?? 'no'} decimals, not ${TOKEN_DECIMALS}`)
  }
}

/** Returns what stays of a mint: its supply does not. */
async function readMint(node: ChainNode, mint: string) {
  const read = await readAccount(node, mint)
  return { owner: read?.owner ?? null, decimals: read?.data[DECIMALS_BYTE] ?? null }
}

async function readAccount(node: ChainNode, address: string) {
  const how = { encoding: 'base64', commitment: 'finalized', dataSlice: { offset: 0, length: ACCOUNT_BYTES_READ } }
  return (await node.ask('getAccountInfo', [address, how], account)).value
}

function wrong(message: string): ChainFailure {
  return new ChainFailure('wrong', message)
}

/** A block and its hash, which nodes give as the newest one that transactions may refer to. */
async function newestFinal(node: ChainNode): Promise<BlockReference> {
  const { context, value } = await node.ask('getLatestBlockhash', [{ commitment: 'finalized' }], latestBlock)
  return { number: context.slot, hash: value.blockhash }
}

async function blockAt(node: ChainNode, number: number): Promise<BlockReference> {
  const how = {
    commitment: 'finalized',
    transactionDetails: 'none',
    rewards: false,
    maxSupportedTransactionVersion: TRANSACTION_VERSION_MOST,
  }
  const { blockhash } = await node.ask('getBlock', [number, how], blockOfSlot)
  return { number, hash: blockhash }
}

/** Returns the units of a token in a token account of a wallet; 0 where the account was given away. */
function balanceIn(read: Awaited<ReturnType<typeof readAccount>>, mint: string, wallet: string): bigint {
  if (read === null) return 0n
  const textAt = (byte: number) => base58.encode(read.data.subarray(byte, byte + ADDRESS_BYTES))
  if (read.owner !== TOKEN_PROGRAM || read.data.length < AMOUNT_BYTE + 8 || textAt(MINT_BYTE) !== mint)
    throw new ChainFailure('malformed', 'a token account on solana tells no balance')
  return textAt(OWNER_BYTE) === wallet ? read.data.readBigUInt64LE(AMOUNT_BYTE) : 0n
}

/** The first slot that two nodes can read a range from, for a while yet; that one can where there is one. */
async function firstKept(nodes: readonly ChainNode[]): Promise<number> {
  const ask = (node: ChainNode) => node.ask('getFirstAvailableBlock', [], slotNumber)
  const told = await Promise.allSettled(nodes.map(ask))
  const firsts = told
    .flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    .sort((one, other) => one - other)
  const first = firsts[Math.min(nodes.length, 2) - 1]
  if (first === undefined)
    throw new ChainFailure('away', 'too few nodes of solana tell from which slot on they keep blocks')
  return first === 0 ? 0 : first + SLOTS_READ_AGAIN + KEPT_MARGIN_SLOTS
}

async function isAnyThere(node: ChainNode, addresses: readonly string[]): Promise<boolean> {
  const how = { encoding: 'base64', commitment: 'confirmed', dataSlice: { offset: 0, length: 0 } }
  const found = await node.ask('getMultipleAccounts', [addresses, how], accounts)
  if (found.length !== addresses.length) throw node.fail('malformed', 'sent other accounts than it was asked for')
  return found.includes(true)
}

async function isUsed(node: ChainNode, address: string): Promise<boolean> {
  const how = { limit: 1, commitment: 'confirmed' }
  return (await node.ask('getSignaturesForAddress', [address, how], signatures)).length > 0
}

/** Returns the token accounts of an address, of each token that is taken. */
function rememberAccounts(tokens: DepositChainSettings['tokens']): (address: string) => readonly TokenAccount[] {
  const known = new Map<string, readonly TokenAccount[]>()
  return (address) => {
    const found = known.get(address)
    if (found !== undefined) return found
    const made = DEPOSIT_ASSETS.flatMap((asset) => {
      const token = tokens[asset]
      return token === undefined ? [] : [{ account: tokenAccountOf(address, token), address, token, asset }]
    })
    if (known.size >= ACCOUNTS_MOST) known.clear()
    known.set(address, made)
    return made
  }
}
