/** Solana for tests: real programs in litesvm, and a small node before them that keeps slots, blocks and what was in them. */

import { createHash } from 'node:crypto'
import {
  type Address,
  address,
  appendTransactionMessageInstructions,
  createTransactionMessage,
  generateKeyPairSigner,
  getAddressDecoder,
  getBase58Decoder,
  getCompiledTransactionMessageDecoder,
  getSignatureFromTransaction,
  type Instruction,
  type KeyPairSigner,
  lamports,
  pipe,
  setTransactionMessageFeePayerSigner,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import { FailedTransactionMetadata, LiteSVM } from 'litesvm'
import { SOLANA_GENESIS_HASH } from '../../src/catalog/depositChain.ts'
import { openSolanaNode } from './solanaNode.ts'

const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'
const TOKEN_ACCOUNT_BYTES = 165
/** A block is final so many slots after it was made. */
const SLOTS_TO_FINAL = 2
const RICH = lamports(1_000_000_000_000n)

/** As nodes give it. */
interface TokenBalance {
  readonly accountIndex: number
  readonly mint: string
  readonly owner: string
  readonly uiTokenAmount: { readonly amount: string; readonly decimals: number }
}

/** A transaction as the chain has carried it out. */
export interface SentTransaction {
  readonly signature: string
  readonly slot: number
  readonly version: 'legacy' | number
  readonly accountKeys: readonly string[]
  /** Null: it succeeded. */
  readonly err: object | null
  readonly preTokenBalances: readonly TokenBalance[]
  readonly postTokenBalances: readonly TokenBalance[]
}

export class SolanaTestChain {
  readonly svm = new LiteSVM()
  readonly genesis = SOLANA_GENESIS_HASH
  readonly payer: KeyPairSigner
  readonly sent: SentTransaction[] = []
  slot = 10
  private readonly node = openSolanaNode(this)

  static async open(): Promise<SolanaTestChain> {
    return new SolanaTestChain(await generateKeyPairSigner())
  }

  private constructor(payer: KeyPairSigner) {
    this.payer = payer
    this.svm.airdrop(payer.address, RICH)
  }

  /** Of the node. */
  get url(): string {
    return this.node.url
  }

  get finalSlot(): number {
    return this.slot - SLOTS_TO_FINAL
  }

  /** Lets slots pass. */
  mine(slots: number): void {
    this.slot += slots
    this.svm.expireBlockhash()
  }

  blockhash(slot: number): string {
    return getBase58Decoder().decode(createHash('sha256').update(`slot ${slot}`).digest())
  }

  /** Sends a transaction, which is in the current slot then, whether it succeeds or not. */
  async send(instructions: readonly Instruction[]): Promise<SentTransaction> {
    const message = pipe(
      createTransactionMessage({ version: 0 }),
      (made) => setTransactionMessageFeePayerSigner(this.payer, made),
      (made) => this.svm.setTransactionMessageLifetimeUsingLatestBlockhash(made),
      (made) => appendTransactionMessageInstructions(instructions, made),
    )
    const transaction = await signTransactionMessageWithSigners(message)
    const compiled = getCompiledTransactionMessageDecoder().decode(transaction.messageBytes)
    const accountKeys = compiled.staticAccounts.map(String)
    const preTokenBalances = this.tokenBalances(accountKeys)
    const result = this.svm.sendTransaction(transaction)
    const sent = {
      signature: getSignatureFromTransaction(transaction),
      slot: this.slot,
      version: compiled.version,
      accountKeys,
      err: result instanceof FailedTransactionMetadata ? { InstructionError: [0, 'Custom'] } : null,
      preTokenBalances,
      postTokenBalances: this.tokenBalances(accountKeys),
    }
    this.sent.push(sent)
    // Two that are alike would have one signature.
    this.svm.expireBlockhash()
    return sent
  }

  /** The block that a transaction was in is given up by the chain, before it was final. */
  drop({ signature }: SentTransaction): void {
    this.sent.splice(
      this.sent.findIndex((each) => each.signature === signature),
      1,
    )
  }

  /** The data of an account and the program that it belongs to; null where there is none. */
  account(of: string): { readonly owner: string; readonly data: Uint8Array } | null {
    const found = this.svm.getAccount(address(of))
    return found.exists ? { owner: found.programAddress, data: new Uint8Array(found.data) } : null
  }

  close(): Promise<void> {
    return this.node.close()
  }

  private tokenBalances(accountKeys: readonly string[]): TokenBalance[] {
    return accountKeys.flatMap((key, accountIndex) => {
      const found = this.account(key)
      if (found?.owner !== TOKEN_PROGRAM || found.data.length !== TOKEN_ACCOUNT_BYTES) return []
      const decoder = getAddressDecoder()
      const amount = Buffer.from(found.data).readBigUInt64LE(64)
      const [mint, owner] = [decoder.decode(found.data, 0), decoder.decode(found.data, 32)]
      return [{ accountIndex, mint, owner, uiTokenAmount: { amount: String(amount), decimals: 6 } }]
    })
  }
}

/** New addresses of wallets, whose keys nobody keeps. */
export async function newWallets(count: number): Promise<Address[]> {
  return Promise.all(Array.from({ length: count }, async () => (await generateKeyPairSigner()).address))
}
