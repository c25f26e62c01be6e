import { expect, test } from 'bun:test'
import { type DepositStatus, parseUnits, printUnits, statusAt } from './deposit.ts'

test.each<[DepositStatus, number, boolean, DepositStatus]>([
  ['created', 999, false, 'created'],
  ['created', 999, true, 'created'],
  ['created', 1_000, false, 'expired'],
  ['created', 1_000, true, 'failed'],
  ['detected', 1_000, true, 'detected'],
  ['expired', 1_000, false, 'expired'],
  ['credited', 1_000, true, 'credited'],
])('%s at %d, with a payment that was taken back: %p, is shown as %s', (status, nowMs, hasDropped, shown) => {
  expect(statusAt({ status, expiresAtMs: 1_000, hasDropped }, nowMs)).toBe(shown)
})

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
