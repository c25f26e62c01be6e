/** Tokens of our own source, compiled by solc, deployed and sent by viem. */

import solc from 'solc'
import { type Abi, createPublicClient, createTestClient, createWalletClient, type Hex, http } from 'viem'
import { TOKEN_SOURCE } from './tokenSource.ts'

interface Compiled {
  readonly abi: Abi
  readonly bytecode: Hex
}

let compiled: Compiled | null = null

function compile(): Compiled {
  if (compiled !== null) return compiled
  const input = {
    language: 'Solidity',
    sources: { 'Token.sol': { content: TOKEN_SOURCE } },
    settings: { outputSelection: { '*': { Token: ['abi', 'evm.bytecode.object'] } } },
  }
  const output = JSON.parse(solc.compile(JSON.stringify(input)))
  const contract = output.contracts?.['Token.sol']?.Token
  if (contract === undefined) throw new Error(JSON.stringify(output.errors))
  compiled = { abi: contract.abi, bytecode: `0x${contract.evm.bytecode.object}` }
  return compiled
}

export interface TestToken {
  /** In lower case. */
  readonly address: string
  /** Sends so many of its smallest parts to an address, in a block of its own; resolves to the transaction. */
  send(to: string, units: bigint): Promise<Hex>
  /** The same in several transfers of one transaction. */
  sendParts(to: string, units: readonly bigint[]): Promise<Hex>
  /** Sends nothing to nobody by another account, so that it comes before everything else in the next block. */
  goFirst(): Promise<void>
  balanceOf(address: string): Promise<bigint>
}

const HIGH_FEE = 10n ** 12n
const NOBODY = `0x${'9'.repeat(40)}`

/** Deploys a token on the chain of a node that signs for its accounts. */
export async function deployToken(url: string, symbol: string, decimals = 6): Promise<TestToken> {
  const { abi, bytecode } = compile()
  const transport = http(url, { retryCount: 0 })
  const reader = createPublicClient({ transport, cacheTime: 0 })
  const miner = createTestClient({ mode: 'anvil', transport })
  const wallet = createWalletClient({ transport })
  const [account, other] = await wallet.getAddresses()
  if (account === undefined || other === undefined) throw new Error('the node has no accounts')
  const mined = async (sent: Promise<Hex>) => {
    const hash = await sent
    await miner.mine({ blocks: 1 })
    return hash
  }
  const hash = await mined(wallet.deployContract({ abi, bytecode, args: [symbol, decimals], account, chain: null }))
  const { contractAddress: address } = await reader.getTransactionReceipt({ hash })
  if (address == null) throw new Error('the token was not deployed')
  const call = { address, abi, chain: null } as const
  return {
    address: address.toLowerCase(),
    send: (to, units) => mined(wallet.writeContract({ ...call, account, functionName: 'transfer', args: [to, units] })),
    sendParts: (to, units) =>
      mined(wallet.writeContract({ ...call, account, functionName: 'transferParts', args: [to, units] })),
    async goFirst() {
      const fees = { maxFeePerGas: HIGH_FEE, maxPriorityFeePerGas: HIGH_FEE }
      await wallet.writeContract({ ...call, ...fees, account: other, functionName: 'transfer', args: [NOBODY, 0n] })
    },
    balanceOf: async (of) => (await reader.readContract({ ...call, functionName: 'balanceOf', args: [of] })) as bigint,
  }
}
