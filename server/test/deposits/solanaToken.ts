/** Tokens of Solana's token program, sent as wallets send them. */

import { address, generateKeyPairSigner, type Instruction, lamports, none, some } from '@solana/kit'
import {
  findAssociatedTokenPda,
  getBurnCheckedInstruction,
  getCreateAssociatedTokenIdempotentInstructionAsync,
  getMintEncoder,
  getMintToInstruction,
  getTransferCheckedInstruction,
  TOKEN_PROGRAM_ADDRESS,
} from '@solana-program/token'
import type { SentTransaction, SolanaTestChain } from './solanaChain.ts'

/** Tokens for one wallet. */
export interface TokenPart {
  readonly to: string
  readonly units: bigint
}

export interface SolanaTestToken {
  /** Of the mint. */
  readonly address: string
  /** Sends so many of its smallest parts to a wallet; the wallet's token account is made where there is none. */
  send(to: string, units: bigint): Promise<SentTransaction>
  /** The same for several, in one transaction. */
  sendParts(...parts: readonly TokenPart[]): Promise<SentTransaction>
  /** Sends and then fails, in one transaction: nothing has moved. */
  sendAndFail(to: string, units: bigint): Promise<SentTransaction>
  accountOf(wallet: string): Promise<string>
}

const PLENTY = 10n ** 16n

/** Makes a token of which the chain's payer has plenty. */
export async function makeSolanaToken(chain: SolanaTestChain, decimals = 6): Promise<SolanaTestToken> {
  const { payer, svm } = chain
  const mint = (await generateKeyPairSigner()).address
  const data = getMintEncoder().encode({
    mintAuthority: some(payer.address),
    supply: 0n,
    decimals,
    isInitialized: true,
    freezeAuthority: none(),
  })
  svm.setAccount({
    address: mint,
    programAddress: TOKEN_PROGRAM_ADDRESS,
    data: new Uint8Array(data),
    executable: false,
    lamports: lamports(10_000_000n),
    space: BigInt(data.length),
  })
  const accountOf = async (wallet: string) => {
    const [account] = await findAssociatedTokenPda({
      owner: address(wallet),
      mint,
      tokenProgram: TOKEN_PROGRAM_ADDRESS,
    })
    return account
  }
  const makeAccount = (wallet: string) =>
    getCreateAssociatedTokenIdempotentInstructionAsync({ payer, owner: address(wallet), mint })
  const source = await accountOf(payer.address)
  const partOf = async ({ to, units }: TokenPart): Promise<Instruction[]> => {
    const destination = await accountOf(to)
    const move = { source, mint, destination, authority: payer, amount: units, decimals }
    return [await makeAccount(to), getTransferCheckedInstruction(move)]
  }
  const mintAll = getMintToInstruction({ mint, token: source, mintAuthority: payer, amount: PLENTY })
  const minted = await chain.send([await makeAccount(payer.address), mintAll])
  if (minted.err !== null) throw new Error('litesvm did not mint the token')
  const token: SolanaTestToken = {
    address: mint,
    accountOf,
    send: (to, units) => token.sendParts({ to, units }),
    async sendParts(...parts) {
      const sent = await chain.send((await Promise.all(parts.map(partOf))).flat())
      if (sent.err !== null) throw new Error('litesvm did not send the token')
      return sent
    },
    async sendAndFail(to, units) {
      const tooMany = { account: source, mint, authority: payer, amount: PLENTY * 100n, decimals }
      const sent = await chain.send([...(await partOf({ to, units })), getBurnCheckedInstruction(tooMany)])
      if (sent.err === null) throw new Error('litesvm carried out what must fail')
      return sent
    },
  }
  return token
}
