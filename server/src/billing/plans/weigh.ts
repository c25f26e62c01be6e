/** Tokens as plans count them. */

import { divideRoundingUp } from '../../lib/money.ts'
import type { TokenUsage } from '../../lib/tokenUsage.ts'

/** A usage factor of one, in thousandths. */
const FACTOR_ONE = 1_000n

/** The tokens that one call spends of a plan. */
export interface WeightedTokens {
  readonly inputTokens: bigint
  /** Reasoning tokens are output tokens. */
  readonly outputTokens: bigint
}

/**
 * Returns the tokens that a usage counts on a plan's meters: tokens times the model's usage factor, input and output
 * each rounded up once a call, so that no call counts nothing. Cached prompt tokens count like others. Throws
 * RangeError on negative counts.
 */
export function weightedTokens(usage: TokenUsage, factorThousandths: number): WeightedTokens {
  if (usage.promptTokens < 0 || usage.completionTokens < 0 || factorThousandths < 0) {
    throw new RangeError('a usage with negative counts cannot be weighted')
  }
  const weigh = (tokens: number) => divideRoundingUp(BigInt(tokens) * BigInt(factorThousandths), FACTOR_ONE)
  return { inputTokens: weigh(usage.promptTokens), outputTokens: weigh(usage.completionTokens) }
}
