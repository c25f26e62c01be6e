import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import {
  centsRoundedHalfUp,
  displayedPrice,
  PRICE_MAX_MICROCENTS,
  type PriceTable,
  priceFromJson,
  priceHash,
  priceToJson,
} from './price.ts'

const amount = fc.bigInt({ min: 0n, max: PRICE_MAX_MICROCENTS })
const price: fc.Arbitrary<PriceTable> = fc.record({
  inputMicrocents: amount,
  outputMicrocents: amount,
  cachedInputMicrocents: fc.option(amount),
})
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

test('a price is shown to the nearest cent, half a cent up', () => {
  for (const [microcents, cents] of [
    [0n, 0n],
    [499_999n, 0n],
    [500_000n, 1n],
    [1_499_999n, 1n],
    [1_500_000n, 2n],
  ] as const) {
    expect(centsRoundedHalfUp(microcents)).toBe(cents)
  }
  fc.assert(
    fc.property(amount, (microcents) => {
      const offBy = centsRoundedHalfUp(microcents) * 1_000_000n - microcents
      expect(offBy > -500_000n && offBy <= 500_000n).toBe(true)
    }),
  )
})

test('a cached rate is always shown exactly, and in cents from half a cent up', () => {
  fc.assert(
    fc.property(price, (table) => {
      const shown = displayedPrice(table)
      const cached = table.cachedInputMicrocents
      expect(shown.cachedInputMicrocents).toBe(cached)
      expect(shown.cachedInputCents === null).toBe(cached === null || cached < 500_000n)
    }),
  )
})

test('one price has one version, and another price another', () => {
  fc.assert(
    fc.property(price, price, (one, other) => {
      const same =
        one.inputMicrocents === other.inputMicrocents &&
        one.outputMicrocents === other.outputMicrocents &&
        one.cachedInputMicrocents === other.cachedInputMicrocents
      expect(hex(priceHash(one)) === hex(priceHash(other))).toBe(same)
      expect(hex(priceHash({ ...one }))).toBe(hex(priceHash(one)))
    }),
  )
})

test('the canonical JSON is JSON, holds the price exactly, and is in key order', () => {
  fc.assert(
    fc.property(price, (table) => {
      const read = JSON.parse(priceToJson(table))
      expect(BigInt(read.input_per_1m_tokens_microcents)).toBe(table.inputMicrocents)
      expect(BigInt(read.output_per_1m_tokens_microcents)).toBe(table.outputMicrocents)
      const cached = read.cached_input_per_1m_tokens_microcents
      expect(cached === null ? null : BigInt(cached)).toBe(table.cachedInputMicrocents)
      expect(Object.keys(read)).toEqual(Object.keys(read).toSorted())
      expect(JSON.stringify(read)).toBe(priceToJson(table))
    }),
  )
})

test('the version of a stored price never changes', () => {
  const table: PriceTable = {
    inputMicrocents: 100_000_000n,
    outputMicrocents: 200_000_000n,
    cachedInputMicrocents: null,
  }
  const json =
    '{"cached_input_per_1m_tokens_microcents":null,"currency":"usd","input_per_1m_tokens_microcents":100000000,"kind":"tokens","output_per_1m_tokens_microcents":200000000}'
  expect(priceToJson(table)).toBe(json)
  expect(hex(priceHash(table))).toBe(createHash('sha256').update(json).digest('hex'))
})

test('a stored price version is read back as it was, in whatever spelling the database gives it', () => {
  for (const cachedInputMicrocents of [null, 0n, 7n]) {
    const price = { inputMicrocents: PRICE_MAX_MICROCENTS, outputMicrocents: 3n, cachedInputMicrocents }
    const spelled = JSON.stringify(JSON.parse(priceToJson(price)), null, 2)
    expect(priceFromJson(spelled)).toEqual(price)
  }
  expect(() => priceFromJson('{"kind":"tokens"}')).toThrow()
})
