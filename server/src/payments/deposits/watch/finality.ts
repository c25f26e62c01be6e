import type { DepositChain } from '../../../catalog/depositChain.ts'
import { MINUTE_MS } from '../../../lib/time.ts'

/**
 * The final block of a chain moves at least so often. Where it stands longer, the nodes stand still, or the chain does. Ethereum makes
 * blocks final each 6.4 minutes, those of several periods at once where one is missed; Base and Arbitrum follow it.
 */
const FINAL_MOVES_MS: Readonly<Record<DepositChain, number>> = {
  ethereum: 30 * MINUTE_MS,
  base: 30 * MINUTE_MS,
  arbitrum: 30 * MINUTE_MS,
  polygon: 10 * MINUTE_MS,
  solana: 2 * MINUTE_MS,
}

/** Returns the instant after which the final block of a chain must have moved, beside the pause between two looks. */
export function finalMovesAfterMs(chain: DepositChain, pollMs: number, nowMs: number): number {
  return nowMs - pollMs - FINAL_MOVES_MS[chain]
}
