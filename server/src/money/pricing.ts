import type { PriceTable } from '../catalog/price.ts'
import { divideRoundingUp } from '../kernel/money.ts'
import type { TokenUsage } from '../upstream/spec.ts'

/** Prices are per this many tokens. */
const TOKENS_PER_PRICE = 1_000_000n

/**
 * What a usage costs, in micro-cents: the sum over token classes, divided and rounded up once (B1). Cached prompt tokens
 * cost the cached rate where the model has one, else the input rate. Throws RangeError on counts that are negative or not
 * whole, and on negative prices: the edges have refused those.
 */
export function priceTokens(price: PriceTable, usage: TokenUsage): bigint {
  const { promptTokens, cachedPromptTokens, completionTokens } = usage
  if (promptTokens < 0 || completionTokens < 0 || cachedPromptTokens < 0 || cachedPromptTokens > promptTokens) {
    throw new RangeError('a usage with negative or contradictory counts cannot be priced')
  }
  const cachedRate = price.cachedInputMicrocents ?? price.inputMicrocents
  if (price.inputMicrocents < 0n || price.outputMicrocents < 0n || cachedRate < 0n) {
    throw new RangeError('a negative price would mint credit')
  }
  const cached = BigInt(cachedPromptTokens)
  const uncached = BigInt(promptTokens) - cached
  const total =
    uncached * price.inputMicrocents + cached * cachedRate + BigInt(completionTokens) * price.outputMicrocents
  return divideRoundingUp(total, TOKENS_PER_PRICE)
}
