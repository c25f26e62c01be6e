import { expect, test } from 'bun:test'
import { anyTimedPrice } from '../../../test/prices.ts'
import { fc } from '../../../test/properties.ts'
import {
  PRICE_MAX_MICROCENTS,
  priceFromJson,
  priceToJson,
  rateAt,
  type TokenRate,
  UNIT_PRICE_MAX_MICROCENTS,
} from '../../catalog/price.ts'
import { DAY_MS } from '../../lib/time.ts'
import type { TokenUsage } from '../../lib/tokenUsage.ts'
import { weightedTokens } from '../plans/weigh.ts'
import { priceEmbeddings, priceImages, priceTokens, priceVideo } from './pricing.ts'

const rate = fc.bigInt({ min: 0n, max: PRICE_MAX_MICROCENTS })
const price: fc.Arbitrary<TokenRate> = fc.record({
  inputMicrocents: rate,
  outputMicrocents: rate,
  cachedInputMicrocents: fc.option(rate),
})
const count = fc.nat({ max: 1_000_000_000 })
const usage: fc.Arbitrary<TokenUsage> = fc
  .record({ uncached: count, cachedPromptTokens: count, completionTokens: count })
  .map(({ uncached, cachedPromptTokens, completionTokens }) => ({
    promptTokens: uncached + cachedPromptTokens,
    cachedPromptTokens,
    completionTokens,
  }))

/** The cost times a million, never rounded. */
function exactMillionths(table: TokenRate, used: TokenUsage): bigint {
  let total = BigInt(used.completionTokens) * table.outputMicrocents
  total += BigInt(used.promptTokens - used.cachedPromptTokens) * table.inputMicrocents
  total += BigInt(used.cachedPromptTokens) * (table.cachedInputMicrocents ?? table.inputMicrocents)
  return total
}

test('a cost is the exact one, rounded up once', () => {
  fc.assert(
    fc.property(price, usage, (table, used) => {
      const excess = priceTokens(table, used) * 1_000_000n - exactMillionths(table, used)
      expect(excess >= 0n && excess < 1_000_000n).toBe(true)
    }),
  )
})

test('known costs', () => {
  const table = { inputMicrocents: 10_000_000n, outputMicrocents: 30_000_000n, cachedInputMicrocents: 1_000_001n }
  for (const [promptTokens, cachedPromptTokens, completionTokens, cost] of [
    [0, 0, 0, 0n],
    [1, 0, 0, 10n],
    [0, 0, 1, 30n],
    [1, 1, 0, 2n], // 1.000001
    [3, 2, 1, 43n], // 10 + 2.000002 + 30
    [1_000_000, 0, 1_000_000, 40_000_000n],
  ] as const) {
    expect(priceTokens(table, { promptTokens, cachedPromptTokens, completionTokens })).toBe(cost)
  }
})

test('without a cached rate cached tokens cost what others cost', () => {
  fc.assert(
    fc.property(price, usage, (table, used) => {
      const without = { ...table, cachedInputMicrocents: null }
      expect(priceTokens(without, used)).toBe(priceTokens(without, { ...used, cachedPromptTokens: 0 }))
    }),
  )
})

test('more of anything never costs less', () => {
  fc.assert(
    fc.property(price, usage, count, count, (table, used, morePrompt, moreCompletion) => {
      const more = {
        ...used,
        promptTokens: used.promptTokens + morePrompt,
        completionTokens: used.completionTokens + moreCompletion,
      }
      expect(priceTokens(table, more) >= priceTokens(table, used)).toBe(true)
    }),
  )
})

test('one call never costs more than the same tokens in two', () => {
  fc.assert(
    fc.property(price, usage, usage, (table, one, two) => {
      const both = {
        promptTokens: one.promptTokens + two.promptTokens,
        cachedPromptTokens: one.cachedPromptTokens + two.cachedPromptTokens,
        completionTokens: one.completionTokens + two.completionTokens,
      }
      const apart = priceTokens(table, one) + priceTokens(table, two)
      const saved = apart - priceTokens(table, both)
      expect(saved === 0n || saved === 1n).toBe(true)
    }),
  )
})

test('the dearest call there can be fits the column it is stored in', () => {
  const table = {
    inputMicrocents: PRICE_MAX_MICROCENTS,
    outputMicrocents: PRICE_MAX_MICROCENTS,
    cachedInputMicrocents: null,
  }
  const most = { promptTokens: 2 ** 30, cachedPromptTokens: 0, completionTokens: 2 ** 30 }
  expect(priceTokens(table, most) < 2n ** 63n).toBe(true)
})

test('nonsense is refused, never priced', () => {
  const table = { inputMicrocents: 10n, outputMicrocents: 10n, cachedInputMicrocents: 1n }
  const sound = { promptTokens: 2, cachedPromptTokens: 1, completionTokens: 1 }
  for (const field of ['promptTokens', 'cachedPromptTokens', 'completionTokens'] as const) {
    for (const nonsense of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      expect(() => priceTokens(table, { ...sound, [field]: nonsense })).toThrow(RangeError)
    }
  }
  expect(() => priceTokens(table, { ...sound, cachedPromptTokens: 3 })).toThrow(RangeError)
  for (const field of ['inputMicrocents', 'outputMicrocents', 'cachedInputMicrocents'] as const) {
    expect(() => priceTokens({ ...table, [field]: -1n }, sound)).toThrow(RangeError)
  }
})

test('a charge follows from its usage, its instant of admission and its price version, and from nothing else', () => {
  const instant = fc.integer({ min: Date.UTC(2020, 0), max: Date.UTC(2040, 0) })
  fc.assert(
    fc.property(anyTimedPrice, usage, instant, fc.nat({ max: DAY_MS }), (table, used, admittedAtMs, laterMs) => {
      const charged = priceTokens(rateAt(table, admittedAtMs), used)
      // Recomputed from the stored row whenever it was posted, on whatever day.
      const stored = priceFromJson(priceToJson(table))
      expect(priceTokens(rateAt(stored, admittedAtMs), used)).toBe(charged)
      expect(priceTokens(rateAt(stored, admittedAtMs + 3 * DAY_MS), used)).toBe(charged)
      const sides = [table.peak, table.offPeak].map((side) => priceTokens(side, used))
      expect(sides).toContain(priceTokens(rateAt(table, admittedAtMs + laterMs), used))
    }),
  )
})

const unitPrice = fc.bigInt({ min: 0n, max: UNIT_PRICE_MAX_MICROCENTS })
const CENT = 1_000_000n

test('images cost their number exactly, or their pixels rounded up once', () => {
  const images = fc.integer({ min: 0, max: 10_000 })
  const pixels = fc.nat({ max: 10_000_000_000 })
  fc.assert(
    fc.property(unitPrice, images, pixels, pixels, (price, number, some, more) => {
      const perImage = { kind: 'image', perImageMicrocents: price } as const
      expect(priceImages(perImage, number, some)).toBe(BigInt(number) * price)
      const perMegapixel = { kind: 'megapixel', perMegapixelMicrocents: price } as const
      const cost = priceImages(perMegapixel, number, some)
      const excess = cost * 1_000_000n - BigInt(some) * price
      expect(excess >= 0n && excess < 1_000_000n).toBe(true)
      expect(priceImages(perMegapixel, number, some + more) >= cost).toBe(true)
    }),
  )
  const perMegapixel = { kind: 'megapixel', perMegapixelMicrocents: 2_500_000n } as const
  expect(priceImages(perMegapixel, 1, 1024 * 1024)).toBe(2_621_440n)
  expect(priceImages(perMegapixel, 2, 2 * 1_000_001)).toBe(5_000_005n)
  expect(priceImages(perMegapixel, 1, 1_000_001)).toBe(2_500_003n)
})

test('a video costs whole cents: its seconds, rounded up to the next cent', () => {
  fc.assert(
    fc.property(unitPrice, fc.nat({ max: 100_000 }), (perSecondMicrocents, seconds) => {
      const cost = priceVideo({ kind: 'video_second', perSecondMicrocents, perVideoMicrocents: 7n }, seconds)
      expect(cost % CENT).toBe(0n)
      const excess = cost - BigInt(seconds) * perSecondMicrocents
      expect(excess >= 0n && excess < CENT).toBe(true)
    }),
  )
  const video = { kind: 'video_second', perSecondMicrocents: 1_300_000n, perVideoMicrocents: null } as const
  expect([1, 3, 10].map((seconds) => priceVideo(video, seconds))).toEqual([2n * CENT, 4n * CENT, 13n * CENT])
})

test('embeddings cost whole cents: the next one, and never less than one', () => {
  fc.assert(
    fc.property(price, count, (table, tokens) => {
      const cost = priceEmbeddings(table, tokens)
      expect(cost % CENT === 0n && cost >= CENT).toBe(true)
      const exact = priceTokens(table, { promptTokens: tokens, cachedPromptTokens: 0, completionTokens: 0 })
      expect(cost >= exact && (cost === CENT || cost - exact < CENT)).toBe(true)
    }),
  )
  const rate = { inputMicrocents: 2_000_000n, outputMicrocents: 0n, cachedInputMicrocents: null }
  expect([0, 1, 500_000, 500_001].map((tokens) => priceEmbeddings(rate, tokens))).toEqual([CENT, CENT, CENT, 2n * CENT])
  expect(priceEmbeddings({ ...rate, inputMicrocents: 0n }, 1_000)).toBe(CENT)
})

test('plan tokens are tokens times the factor, each side rounded up once', () => {
  fc.assert(
    fc.property(usage, fc.integer({ min: 1, max: 1_000_000 }), (used, factor) => {
      const weighed = weightedTokens(used, factor)
      for (const [tokens, weight] of [
        [used.promptTokens, weighed.inputTokens],
        [used.completionTokens, weighed.outputTokens],
      ] as const) {
        const excess = weight * 1_000n - BigInt(tokens) * BigInt(factor)
        expect(excess >= 0n && excess < 1_000n).toBe(true)
      }
    }),
  )
  const used = { promptTokens: 3, cachedPromptTokens: 2, completionTokens: 5 }
  expect(weightedTokens(used, 1_000)).toEqual({ inputTokens: 3n, outputTokens: 5n })
  expect(weightedTokens(used, 2_000)).toEqual({ inputTokens: 6n, outputTokens: 10n })
  expect(weightedTokens(used, 1)).toEqual({ inputTokens: 1n, outputTokens: 1n })
  expect(weightedTokens({ promptTokens: 0, cachedPromptTokens: 0, completionTokens: 0 }, 2_000)).toEqual({
    inputTokens: 0n,
    outputTokens: 0n,
  })
})

test('nonsense of any other unit is refused too', () => {
  const image = { kind: 'image', perImageMicrocents: 1n } as const
  const megapixel = { kind: 'megapixel', perMegapixelMicrocents: 1n } as const
  const video = { kind: 'video_second', perSecondMicrocents: 1n, perVideoMicrocents: null } as const
  const used = { promptTokens: 1, cachedPromptTokens: 0, completionTokens: 1 }
  for (const nonsense of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    for (const attempt of [
      () => priceImages(image, nonsense, 1),
      () => priceImages(megapixel, 1, nonsense),
      () => priceVideo(video, nonsense),
      () => weightedTokens(used, nonsense),
      () => weightedTokens({ ...used, promptTokens: nonsense }, 1_000),
      () => weightedTokens({ ...used, completionTokens: nonsense }, 1_000),
      () => priceEmbeddings({ inputMicrocents: 1n, outputMicrocents: 0n, cachedInputMicrocents: null }, nonsense),
    ]) {
      expect(attempt).toThrow(RangeError)
    }
  }
  expect(() => priceImages({ ...image, perImageMicrocents: -1n }, 1, 1)).toThrow(RangeError)
  expect(() => priceVideo({ ...video, perSecondMicrocents: -1n }, 1)).toThrow(RangeError)
})
