import { expect, test } from 'bun:test'
import { parseUnits, printUnits } from './deposit.ts'

test.each<[bigint, string]>([
  [25_000_000n, '25.00'],
  [25_500_000n, '25.50'],
  [1n, '0.000001'],
  [10n, '0.00001'],
  [9_999_999n, '9.999999'],
  [123_456_789_012_340_000n, '123456789012.34'],
  [0n, '0.00'],
])('%d units are %s tokens, to the last digit', (units, text) => {
  expect(printUnits(units)).toBe(text)
})

test.each<[string, bigint | null]>([
  ['25', 25_000_000n],
  ['25.5', 25_500_000n],
  ['0.000001', 1n],
  ['0.0000001', null],
  ['-1', null],
  ['', null],
  ['1e3', null],
])('%p is read as %p units', (text, units) => {
  expect(parseUnits(text)).toBe(units)
})
