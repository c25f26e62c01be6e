import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { PRICE_MAX_MICROCENTS, type PriceTable } from '../catalog/price.ts'
import type { TokenUsage } from '../upstream/spec.ts'
import { priceTokens } from './pricing.ts'

const rate = fc.bigInt({ min: 0n, max: PRICE_MAX_MICROCENTS })
const price: fc.Arbitrary<PriceTable> = fc.record({
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
function exactMillionths(table: PriceTable, used: TokenUsage): bigint {
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
