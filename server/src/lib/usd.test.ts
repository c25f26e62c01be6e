import { expect, test } from 'bun:test'
import { fc } from '../../test/properties.ts'
import { parseUsd, printUsd } from './usd.ts'

const LARGEST_MICROCENTS = 1_000_000_000n * 100_000_000n

test('every amount that can be granted is printed and read back exactly', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 1n, max: LARGEST_MICROCENTS }), (microcents) => {
      expect(parseUsd(printUsd(microcents))).toBe(microcents)
      expect(parseUsd(`$${printUsd(microcents)}`)).toBe(microcents)
    }),
  )
})

test('any decimal is read digit by digit, never through a float', () => {
  fc.assert(
    fc.property(fc.nat(999_999_999), fc.array(fc.nat(9), { minLength: 1, maxLength: 8 }), (dollars, digits) => {
      const text = `${dollars}.${digits.join('')}`
      const expected = BigInt(dollars) * 100_000_000n + BigInt(digits.join('').padEnd(8, '0'))
      expect(parseUsd(text)).toBe(expected === 0n ? undefined : expected)
    }),
  )
})

test.each([
  ['50', 5_000_000_000n],
  ['0.25', 25_000_000n],
  ['$12.5', 1_250_000_000n],
  ['0.00000001', 1n],
  ['0.1', 10_000_000n],
  ['1000000000', LARGEST_MICROCENTS],
])('%s is %p micro-cents', (text, microcents) => {
  expect(parseUsd(text)).toBe(microcents)
})

test.each([
  [''],
  ['0'],
  ['0.00'],
  ['-1'],
  ['+1'],
  ['1e3'],
  ['1,000'],
  ['.5'],
  ['5.'],
  ['0.000000001'],
  ['1000000000.01'],
  ['NaN'],
  [' 5'],
])('%p is no amount', (text) => {
  expect(parseUsd(text)).toBeUndefined()
})

test.each([
  [0n, '0.00'],
  [1_000_000n, '0.01'],
  [-150_000_000n, '-1.50'],
  [10_000n, '0.0001'],
  [-1n, '-0.00000001'],
])('%p micro-cents are printed as %s', (microcents, text) => {
  expect(printUsd(microcents)).toBe(text)
})
