import { afterAll, beforeAll, expect, test } from 'bun:test'
import { callOnce } from '../../../test/moneyGates.ts'
import { FastClock, type House, openHouse, openTill } from '../../../test/moneyHouse.ts'
import { setSpendingLimit } from './set.ts'

const CENT = 1_000_000n
const clock = new FastClock(Date.UTC(2030, 0, 15, 12), 10)
let house: House
beforeAll(async () => {
  house = await openHouse(clock)
})
afterAll(() => house.drop())

const UNCHANGED = { enforcement: undefined, autoTerminateHours: undefined }

test('the process that answers a lowered limit admits no call by what it was granted before', async () => {
  const organization = await house.organization(100n * CENT)
  // Nobody tells this process of the change.
  const money = openTill(house.database, 0, clock)
  expect(await callOnce(money, organization, CENT)).toBe('charged')
  expect(money.share(organization).spendableMicrocents).toBeGreaterThan(10n)
  const lowered = { monthlyDollars: 1_000, dailyDollars: 0.01, ...UNCHANGED }
  await setSpendingLimit({ database: house.database, clock, money }, organization, lowered)
  expect(await callOnce(money, organization, 10n)).toBe('quota_exceeded')
  expect(await house.spent(organization)).toMatchObject({ microcents: CENT })
})
