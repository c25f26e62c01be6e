import type { ImagePrice, InstancePrice, TokenRate, VideoPrice } from '../../catalog/price.ts'
import { divideRoundingDown, divideRoundingUp, largest, MICROCENTS_PER_CENT } from '../../lib/money.ts'
import type { TokenUsage } from '../../lib/tokenUsage.ts'
import type { InstanceUsage } from './charge.ts'

/** Prices are per this many tokens. */
const TOKENS_PER_PRICE = 1_000_000n

/** Pixels in a megapixel. */
const PIXELS_PER_PRICE = 1_000_000n

/**
 * Returns the cost of a usage, in micro-cents: the sum over token classes, divided and rounded up once (B1). Cached
 * prompt tokens cost the cached rate where the model has one, else the input rate. Throws RangeError on counts that
 * are negative or not whole, and on negative prices: whoever reads counts and prices has refused those.
 */
export function priceTokens(rate: TokenRate, usage: TokenUsage): bigint {
  const { promptTokens, cachedPromptTokens, completionTokens } = usage
  if (promptTokens < 0 || completionTokens < 0 || cachedPromptTokens < 0 || cachedPromptTokens > promptTokens) {
    throw new RangeError('a usage with negative or contradictory counts cannot be priced')
  }
  const cachedRate = rate.cachedInputMicrocents ?? rate.inputMicrocents
  if (rate.inputMicrocents < 0n || rate.outputMicrocents < 0n || cachedRate < 0n) {
    throw new RangeError('a negative price would mint credit')
  }
  const cached = BigInt(cachedPromptTokens)
  const uncached = BigInt(promptTokens) - cached
  const total = uncached * rate.inputMicrocents + cached * cachedRate + BigInt(completionTokens) * rate.outputMicrocents
  return divideRoundingUp(total, TOKENS_PER_PRICE)
}

/**
 * Returns the cost of one request for images, in micro-cents: per image exact, per megapixel (a million pixels)
 * rounded up once (B1). `pixels` are those of all images together. Throws RangeError on negative counts and prices.
 */
export function priceImages(price: ImagePrice, images: number, pixels: number): bigint {
  const perUnit = price.kind === 'image' ? price.perImageMicrocents : price.perMegapixelMicrocents
  if (images < 0 || pixels < 0) throw new RangeError('fewer than no images cannot be priced')
  refuseNegativePrice(perUnit)
  return price.kind === 'image'
    ? BigInt(images) * perUnit
    : divideRoundingUp(BigInt(pixels) * perUnit, PIXELS_PER_PRICE)
}

/**
 * Returns the cost of a video, in micro-cents: its billed seconds, rounded up to a whole cent (V6). Throws like the
 * others.
 */
export function priceVideo(price: VideoPrice, billedSeconds: number): bigint {
  if (billedSeconds < 0) throw new RangeError('a video of negative length cannot be priced')
  refuseNegativePrice(price.perSecondMicrocents)
  return toWholeCentsRoundingUp(BigInt(billedSeconds) * price.perSecondMicrocents)
}

/**
 * Returns the cost of one request for embeddings, in micro-cents: rounded up to a whole cent, at least one cent (B1).
 */
export function priceEmbeddings(rate: TokenRate, promptTokens: number): bigint {
  const exact = priceTokens(rate, { promptTokens, cachedPromptTokens: 0, completionTokens: 0 })
  return largest(toWholeCentsRoundingUp(exact), MICROCENTS_PER_CENT)
}

const SECONDS_PER_HOUR = 3_600n

/**
 * Returns what the first seconds of an instance's life cost, in micro-cents, rounded down. A part of its life costs the
 * difference of two of these, so that parts of any length add up. Throws RangeError on a negative price or length.
 */
export function priceInstanceLife(hourMicrocents: bigint, seconds: number): bigint {
  refuseNegativePrice(hourMicrocents)
  if (seconds < 0) throw new RangeError('an instance can not live for less than no time')
  return divideRoundingDown(hourMicrocents * BigInt(seconds), SECONDS_PER_HOUR)
}

/**
 * Returns how many seconds of an instance's life an amount pays for, counted from its creation: the most that cost no more than it.
 * `Infinity` for a free instance; 0 where nothing is paid for.
 */
export function secondsOfInstancePaidBy(hourMicrocents: bigint, microcents: bigint): number {
  refuseNegativePrice(hourMicrocents)
  if (microcents < 0n) return 0
  if (hourMicrocents === 0n) return Number.POSITIVE_INFINITY
  return Number(((microcents + 1n) * SECONDS_PER_HOUR - 1n) / hourMicrocents)
}

/** Returns what a part of an instance's life costs, in micro-cents: the cost up to its end less that up to its start. */
export function priceInstancePart(
  { perGpuHourMicrocents }: InstancePrice,
  { gpuCount, fromSecond, seconds }: Pick<InstanceUsage, 'gpuCount' | 'fromSecond' | 'seconds'>,
): bigint {
  const hourMicrocents = perGpuHourMicrocents * BigInt(gpuCount)
  return priceInstanceLife(hourMicrocents, fromSecond + seconds) - priceInstanceLife(hourMicrocents, fromSecond)
}

function toWholeCentsRoundingUp(microcents: bigint): bigint {
  return divideRoundingUp(microcents, MICROCENTS_PER_CENT) * MICROCENTS_PER_CENT
}

function refuseNegativePrice(microcents: bigint): void {
  if (microcents < 0n) throw new RangeError('a negative price would mint credit')
}
