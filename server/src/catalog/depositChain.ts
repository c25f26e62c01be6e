/** The chains and tokens in which stablecoin deposits may come. */

import type { Secret } from '../lib/secret.ts'

/** Chains that run the Ethereum Virtual Machine, with the id that their nodes give. */
export const EVM_CHAIN_IDS = { ethereum: 1, base: 8_453, arbitrum: 42_161, polygon: 137 } as const

export type EvmChain = keyof typeof EVM_CHAIN_IDS

const EVM_CHAINS: readonly EvmChain[] = ['ethereum', 'base', 'arbitrum', 'polygon']

/** Names the chain that wallets call Solana; others, such as those for developers, have another first block. */
export const SOLANA_GENESIS_HASH = '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d'

export type DepositChain = EvmChain | 'solana'

export const DEPOSIT_CHAINS: readonly DepositChain[] = [...EVM_CHAINS, 'solana']

/** Returns whether a chain runs the Ethereum Virtual Machine. */
export function isEvmChain(chain: DepositChain): chain is EvmChain {
  return chain !== 'solana'
}

export const DEPOSIT_ASSETS = ['usdc', 'usdt'] as const

export type DepositAsset = (typeof DEPOSIT_ASSETS)[number]

/** The contracts of tokens on a chain of the EVM, in lower case; on Solana their mints. */
export type TokenContracts = Readonly<Partial<Record<DepositAsset, string>>>

/** The contracts of the issuers. No USDT is issued on Base. */
export const ISSUED_TOKENS: Readonly<Record<DepositChain, TokenContracts>> = {
  ethereum: {
    usdc: '0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48',
    usdt: '0xdac17f958d2ee523a2206206994597c13d831ec7',
  },
  base: { usdc: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913' },
  arbitrum: {
    usdc: '0xaf88d065e77c8cc2239327c5edb3a432268e5831',
    usdt: '0xfd086bc7cd5c481dcc9c85ebe478a1c0b69fcbb9',
  },
  polygon: {
    usdc: '0x3c499c542cef5e3811e1192ce70d8cc03d5c3359',
    usdt: '0xc2132d05d31c914a87c6611c10748aeb04b58e8f',
  },
  solana: {
    usdc: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v',
    usdt: 'Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB',
  },
}

/** A chain on which deposits may come. */
export interface DepositChainSettings {
  readonly chain: DepositChain
  /** Addresses of nodes, 1 to 5; they may hold keys. Where there are two, two must agree on what is final. */
  readonly rpcUrls: readonly Secret[]
  /** Between two looks at the chain. */
  readonly pollMs: number
  /** Blocks that are settled in one step at most, and that one question for events takes. */
  readonly blockRange: number
  /** Of the EVM in lower case. A token without one is not taken. */
  readonly tokens: TokenContracts
  /** Addresses of the pool that are free: the operator is warned of fewer. Null: the chain has no pool. */
  readonly poolWarnBelow: number | null
}
