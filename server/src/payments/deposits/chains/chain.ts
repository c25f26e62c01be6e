/** The interface of a chain, of whichever kind it is, to the folders of deposits. */

import type { DepositAsset } from '../../../catalog/depositChain.ts'

/** A block, by its place in the chain and by what is in it. */
export interface BlockReference {
  readonly number: number
  /** Another block in its place has another one. */
  readonly hash: string
}

/** A thousand million dollars: no stablecoin moves more at once, and a token that says so is none. */
export const UNITS_MOST = 10n ** 15n

/** Tokens that a chain has moved to a watched address. */
export interface ChainTransfer {
  readonly transactionHash: string
  /**
   * Of the EVM its place among the events of its transaction, on Solana that of the token account among the transaction's accounts, from
   * 0. It stays when the transaction moves to another block.
   */
  readonly ordinal: number
  readonly block: BlockReference
  readonly token: string
  /** Null: none that is taken. */
  readonly asset: DepositAsset | null
  readonly sender: string
  /** Others that the transaction took the token from: on Solana the owners of further accounts. Any of them may have paid. */
  readonly otherSenders: readonly string[]
  /** The watched address, as it was asked for. */
  readonly address: string
  /** The smallest parts of the token, more than 0; 1,000,000 of a stablecoin are a dollar. */
  readonly units: bigint
}

/** Blocks from `from` to `to`, both included. */
export interface BlockRange {
  readonly from: number
  readonly to: number
}

/** Transfers to one address that are shown before they are final: anybody may send any number of them. */
const NEW_OF_ONE_MOST = 20

/** Returns the largest transfers to each address, {@link NEW_OF_ONE_MOST} at most. */
export function largestOfEach<Seen extends Pick<ChainTransfer, 'address' | 'units'>>(
  transfers: readonly Seen[],
): Seen[] {
  const counts = new Map<string, number>()
  return [...transfers]
    .sort((one, other) => (one.units === other.units ? 0 : one.units > other.units ? -1 : 1))
    .filter(({ address }) => {
      const count = (counts.get(address) ?? 0) + 1
      counts.set(address, count)
      return count <= NEW_OF_ONE_MOST
    })
}

/** Reads a chain by nodes that may be away, behind or wrong. Every function throws {@link ChainFailure} where they can't tell. */
export interface ChainReader {
  /** Refuses a chain that is another than the settings say, or tokens that do not count in millionths. Asks once. */
  check(): Promise<void>
  /** The newest block that can't be taken back. Where the settings name two nodes, two agree on it. */
  finalBlock(): Promise<BlockReference>
  /** The newest block, as two nodes see it where two answer. */
  headBlock(): Promise<number>
  /**
   * Transfers to any of the addresses in blocks that are final. Where the settings name two nodes, two agree on them; `too_many` of long
   * ranges. There may be some of blocks before the range among them.
   */
  finalTransfers(addresses: readonly string[], range: BlockRange): Promise<readonly ChainTransfer[]>
  /**
   * Transfers in blocks that may be taken back, as one node sees them; of each address {@link NEW_OF_ONE_MOST} at most, the largest. None
   * where the chain is read by its final blocks alone.
   */
  newTransfers(addresses: readonly string[], range: BlockRange): Promise<readonly ChainTransfer[]>
  /**
   * Transfers of tokens that are not taken, in blocks that are final, as far as one node tells of them in short time: anybody can make any
   * number of such. Absent where the chain is not asked for them.
   */
  otherTransfers?(addresses: readonly string[], range: BlockRange): Promise<readonly ChainTransfer[]>
  /**
   * The first block from which on a range can be read, as two nodes say where there are two. Absent where nodes do not tell. Throws where
   * too few answer.
   */
  firstBlock?(): Promise<number>
  /** Returns how much of a token lies at an address, in its smallest parts, as two nodes say where there are two. */
  balanceOf(token: string, address: string): Promise<bigint>
}

/**
 * `away`: no answer. `too_large`: one that is larger than is read. `too_many`: more transfers in these blocks than are held at once.
 * `disagree`: two nodes say different things. `moved`: the chain changed in between. `wrong`: against the settings. `behind`: a node
 * is far behind the furthest one, which fails nothing by itself.
 */
export type ChainTrouble =
  | 'away'
  | 'refused'
  | 'malformed'
  | 'too_large'
  | 'too_many'
  | 'disagree'
  | 'moved'
  | 'wrong'
  | 'behind'

/** A chain could not be read. The message is in our words, and has no address of a node. */
export class ChainFailure extends Error {
  override readonly name = 'ChainFailure'
  readonly trouble: ChainTrouble

  constructor(trouble: ChainTrouble, message: string) {
    super(message)
    this.trouble = trouble
  }
}
