import { expect, test } from 'bun:test'
import { fc } from '../../test/properties.ts'
import { divideRoundingDown, divideRoundingUp, largest, smallest, toCentsRoundingDown } from './money.ts'

const any = fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n })
const positive = fc.bigInt({ min: 1n, max: 10n ** 18n })

test('rounding up gives the least whole number that is not below, rounding down the greatest not above', () => {
  fc.assert(
    fc.property(any, positive, (a, b) => {
      const up = divideRoundingUp(a, b)
      expect(up * b >= a && (up - 1n) * b < a).toBe(true)
      const down = divideRoundingDown(a, b)
      expect(down * b <= a && (down + 1n) * b > a).toBe(true)
      expect(up - down).toBe(a % b === 0n ? 0n : 1n)
      expect(divideRoundingUp(-a, b)).toBe(-down)
    }),
  )
})

test('a balance is never shown larger than it is, below zero too', () => {
  for (const [microcents, cents] of [
    [0n, 0],
    [999_999n, 0],
    [1_000_000n, 1],
    [2_500_000_000n, 2_500],
    [-1n, -1],
    [-1_000_000n, -1],
    [-1_000_001n, -2],
  ] as const) {
    expect(toCentsRoundingDown(microcents)).toBe(cents)
  }
})

test('the larger and the smaller of two are the two', () => {
  fc.assert(
    fc.property(any, any, (a, b) => {
      expect(largest(a, b) + smallest(a, b)).toBe(a + b)
      expect(largest(a, b) >= smallest(a, b)).toBe(true)
    }),
  )
})
