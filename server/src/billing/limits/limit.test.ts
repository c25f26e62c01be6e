import { expect, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import type { AccountFigures } from '../admission/accounts/figures.ts'
import { isWholeCents, toChange, toSpendingLimit } from './limit.ts'

const NOW_MS = Date.UTC(2031, 4, 17, 13, 30)

const FIGURES: AccountFigures = {
  balanceMicrocents: 0n,
  sharesMicrocents: 0n,
  heldMicrocents: 0n,
  daySpentMicrocents: 0n,
  monthSpentMicrocents: 0n,
  instancesHeldMicrocents: 0n,
  burnMicrocents: 0n,
  hourSpentMicrocents: 0n,
  isNew: false,
  dailyLimitMicrocents: null,
  monthlyLimitMicrocents: 100_000_000n,
  enforcement: 'block_launch',
  autoTerminateHours: null,
}

test('amounts have at most 2 decimals, and each comes out as the cents it was written with', () => {
  for (const dollars of [0, 0.01, 1, 1.1, 19.99, 0.07, 1_000_000_000, 999_999_999.99]) {
    expect([dollars, isWholeCents(dollars)]).toEqual([dollars, true])
  }
  for (const dollars of [0.001, 1.005, 19.999, 0.1 + 0.2, 1e-9]) {
    expect([dollars, isWholeCents(dollars)]).toEqual([dollars, false])
  }
  fc.assert(
    fc.property(fc.integer({ min: 100, max: 100_000_000_000 }), (cents) => {
      const dollars = Number(`${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, '0')}`)
      expect(isWholeCents(dollars)).toBe(true)
      const wanted = { enforcement: undefined, autoTerminateHours: undefined }
      const change = toChange({ monthlyDollars: dollars, dailyDollars: dollars, ...wanted })
      expect([change.monthlyMicrocents, change.dailyMicrocents]).toEqual([
        BigInt(cents) * 1_000_000n,
        BigInt(cents) * 1_000_000n,
      ])
    }),
  )
})

test('the spend is shown in whole cents, rounded down, and as a share that may pass 100', () => {
  expect(toSpendingLimit({ ...FIGURES, monthlyLimitMicrocents: null }, NOW_MS)).toBeNull()
  const spent = { daySpentMicrocents: 1_999_999n, monthSpentMicrocents: 150_005_000n, dailyLimitMicrocents: 7_000_000n }
  expect(toSpendingLimit({ ...FIGURES, ...spent }, NOW_MS)).toEqual({
    monthlyLimitCents: 100,
    dailyLimitCents: 7,
    monthSpendCents: 150,
    daySpendCents: 1,
    percentUsed: 150.01,
    billingCycleStart: '2031-05-01T00:00:00.000Z',
    enforcement: 'block_launch',
    autoTerminateHours: null,
  })
})
