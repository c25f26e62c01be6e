/** A chain in memory that does what a test says: for histories, of which a real chain makes too few. */

import type { DepositChain, TokenContracts } from '../../src/catalog/depositChain.ts'
import {
  type BlockRange,
  type BlockReference,
  ChainFailure,
  type ChainReader,
  type ChainTransfer,
} from '../../src/payments/deposits/chains/chain.ts'

/** A transaction that waits for a block, or is in one. */
interface FakeTransaction {
  readonly hash: string
  readonly transfers: readonly Pick<ChainTransfer, 'token' | 'asset' | 'address' | 'units'>[]
}

interface FakeBlock {
  readonly hash: string
  readonly transactions: readonly FakeTransaction[]
}

const SENDER = `0x${'5e'.repeat(20)}`
const WRONG_TOKEN = `0x${'bad0'.repeat(10)}`

const BLOCKS_READ_AGAIN = 3

export class FakeChain implements ChainReader {
  readonly tokens: TokenContracts = { usdc: `0x${'c0'.repeat(20)}`, usdt: `0x${'d0'.repeat(20)}` }
  readonly name: DepositChain
  /** It is read by its final blocks alone, some of which are read again each time, and has a pool: as Solana. */
  readonly isFinalOnly: boolean
  /** Called before each answer: throws, or changes the chain under the reader's hands. */
  onAsked: () => void = () => {}
  private readonly blocks: FakeBlock[] = [{ hash: 'genesis', transactions: [] }]
  private waiting: FakeTransaction[] = []
  private finalNumber = 0
  private made = 0

  constructor(name: DepositChain, isFinalOnly = false) {
    this.name = name
    this.isFinalOnly = isFinalOnly
  }

  get headNumber(): number {
    return this.blocks.length - 1
  }

  /** Sends tokens in one transaction, which waits for a block. A part of a wrong token is of `asset` null. */
  pay(
    address: string,
    ...parts: readonly (bigint | { readonly units: bigint; readonly asset: 'usdt' | null })[]
  ): string {
    const hash = this.unique()
    const transfers = parts.map((part) => {
      const { units, asset } = typeof part === 'bigint' ? { units: part, asset: 'usdc' as const } : part
      return { token: (asset === null ? WRONG_TOKEN : this.tokens[asset]) ?? WRONG_TOKEN, asset, address, units }
    })
    this.waiting.push({ hash, transfers })
    return hash
  }

  /** Mines a block of what waits, or of those of it that are taken. */
  mine(takes: (transaction: string) => boolean = () => true): void {
    const taken = this.waiting.filter(({ hash }) => takes(hash))
    this.waiting = this.waiting.filter((transaction) => !taken.includes(transaction))
    this.blocks.push({ hash: this.unique(), transactions: taken })
  }

  /** Takes the newest blocks back that are not final. Their transactions wait again, but for those that are lost for good. */
  reorganize(blocks: number, isLost: (transaction: string) => boolean): void {
    const from = Math.max(this.blocks.length - blocks, this.finalNumber + 1)
    const transactions = this.blocks.splice(from).flatMap((block) => block.transactions)
    this.waiting.push(...transactions.filter(({ hash }) => !isLost(hash)))
  }

  /** Makes blocks final, up to so many behind the newest one. */
  finalize(behind = 0): void {
    this.finalNumber = Math.max(this.finalNumber, this.headNumber - behind)
  }

  /** All transfers in final blocks. */
  final(): ChainTransfer[] {
    return this.read({ from: 0, to: this.finalNumber })
  }

  async check(): Promise<void> {
    this.onAsked()
  }

  async finalBlock(): Promise<BlockReference> {
    this.onAsked()
    return { number: this.finalNumber, hash: this.blocks[this.finalNumber]?.hash ?? '' }
  }

  async headBlock(): Promise<number> {
    this.onAsked()
    return this.headNumber
  }

  async finalTransfers(addresses: readonly string[], range: BlockRange): Promise<ChainTransfer[]> {
    this.onAsked()
    if (range.to > this.finalNumber) throw new ChainFailure('malformed', 'asked for blocks that are not final')
    const again = this.isFinalOnly ? BLOCKS_READ_AGAIN : 0
    return this.read({ from: Math.max(range.from - again, 0), to: range.to }, addresses)
  }

  async newTransfers(addresses: readonly string[], range: BlockRange): Promise<ChainTransfer[]> {
    this.onAsked()
    return this.isFinalOnly ? [] : this.read(range, addresses)
  }

  /** Returns whether anything was ever sent to an address, in a block or not. */
  async hasHistory(address: string): Promise<boolean> {
    this.onAsked()
    return this.wasSentTo(address)
  }

  /** The same, as it is and without being asked. */
  wasSentTo(address: string): boolean {
    const transactions = [...this.waiting, ...this.blocks.flatMap((block) => block.transactions)]
    return transactions.some(({ transfers }) => transfers.some((each) => each.address === address))
  }

  async balanceOf(token: string, address: string): Promise<bigint> {
    const all = this.final().filter((each) => each.token === token && each.address === address)
    return all.reduce((sum, { units }) => sum + units, 0n)
  }

  private read({ from, to }: BlockRange, addresses: readonly string[] | null = null): ChainTransfer[] {
    return this.blocks.slice(from, to + 1).flatMap(({ hash, transactions }, index) =>
      transactions.flatMap((transaction) =>
        transaction.transfers.flatMap((transfer, ordinal) => {
          if (addresses !== null && !addresses.includes(transfer.address)) return []
          const block = { number: from + index, hash }
          return [{ ...transfer, transactionHash: transaction.hash, ordinal, block, sender: SENDER, otherSenders: [] }]
        }),
      ),
    )
  }

  private unique(): string {
    this.made += 1
    return `0x${this.name}-${this.made}`
  }
}
