/** Accounts whose day lies in the future of the database's clock: renewals mend them, and lose no spend on the way (E20). */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../../test/clock.ts'
import { type House, openHouse } from '../../../../test/moneyHouse.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, toTimestamp, utcDay } from '../../../lib/time.ts'
import { ensureChargePartition } from '../../charges/partitions/prepare.ts'
import { postCharges } from '../../charges/post.ts'
import { readFigures } from '../accounts/figures.ts'
import { setLimit } from '../accounts/limit.ts'
import type { Want } from '../wants.ts'
import { renewShares } from './renew.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
const [OWN, OTHER] = [1, 2]
const NOTHING: Want = { admission: 0n, least: 0n, extension: 0n, giveBack: 0n }

let databaseMs = NOON_MS
let house: House
beforeAll(async () => {
  house = await openHouse(new TurnedClock(NOON_MS), { now: () => databaseMs })
})
afterAll(() => house.drop())

async function post(organizationId: string, slot: number, atMs: number, costMicrocents: bigint): Promise<void> {
  await ensureChargePartition(house.database, atMs)
  await postCharges(house.database, slot, [house.charge(organizationId, costMicrocents, { admittedAtMs: atMs })], atMs)
}

/** Renews the share of a slot by a process's clock and the database's, and returns the account with what was told of it. */
async function renew(organizationId: string, processMs: number, { atMs = processMs, slot = OWN, want = NOTHING } = {}) {
  databaseMs = atMs
  const mended: string[] = []
  const onMended = (id: string) => void mended.push(id)
  const [renewed] = await renewShares(
    house.database,
    slot,
    new Map([[organizationId, want]]),
    processMs,
    0n,
    null,
    onMended,
  )
  const [row] = await house.database.query<{
    day: string
    spent: bigint
    month: string
    month_spent: bigint
    hour: bigint
  }>(
    `select to_char(day, 'YYYY-MM-DD') as day, day_spent_microcents as spent, to_char(month, 'YYYY-MM') as month,
       month_spent_microcents as month_spent, hour_spent_microcents as hour from accounts where organization_id = $1::uuid`,
    [organizationId],
  )
  return { ...row, granted: renewed?.grantedMicrocents, isMended: mended.length > 0 }
}

test.each([
  ['the next day', 20 * HOUR_MS],
  ['a day of the next month', 40 * DAY_MS],
])('%s goes back to the database’s, with the spend of all that was charged on it', async (_, aheadMs) => {
  const organization = await house.organization(10_000n)
  await post(organization, OWN, NOON_MS - 3 * DAY_MS, 1n)
  await post(organization, OWN, NOON_MS, 10n)
  await renew(organization, NOON_MS)
  // A process with a false clock takes the account along, and charges it there.
  await post(organization, OWN, NOON_MS + aheadMs, 200n)
  const falseMs = NOON_MS + aheadMs
  const gone = await renew(organization, falseMs)
  expect(gone).toMatchObject({ day: utcDay(falseMs), spent: 200n, isMended: false })
  // Meanwhile others charge on the true day: one is folded by the renewal that mends, one by nobody yet.
  await post(organization, OWN, NOON_MS, 3_000n)
  await post(organization, OTHER, NOON_MS, 40_000n)
  const mended = await renew(organization, NOON_MS + SECOND_MS)
  const ofFalseDay = utcDay(falseMs).startsWith('2030-01') ? 200n : 0n
  expect(mended).toMatchObject({ day: '2030-01-15', spent: 3_010n, month: '2030-01', isMended: true })
  expect(mended.month_spent).toBe(3_011n + ofFalseDay)
  const figures = await readFigures(house.database, organization, NOON_MS + SECOND_MS)
  expect([figures?.daySpentMicrocents, figures?.monthSpentMicrocents]).toEqual([43_010n, 43_011n + ofFalseDay])
  const folded = await renew(organization, NOON_MS + SECOND_MS, { slot: OTHER })
  expect(folded).toMatchObject({ day: '2030-01-15', spent: 43_010n, isMended: false })
  // When the day has really come, what was charged on it by the false clock counts.
  expect(await renew(organization, falseMs)).toMatchObject({ day: utcDay(falseMs), spent: 200n, isMended: false })
  expect(await house.imbalances()).toEqual([])
})

test('a day that begins within 5 s of the database’s clock is a process’s that is a little ahead', async () => {
  const organization = await house.organization(10_000n)
  const midnightMs = Date.UTC(2030, 0, 16)
  await renew(organization, midnightMs)
  const [near, far] = [midnightMs - 5 * SECOND_MS, midnightMs - 5 * SECOND_MS - 1]
  expect(await renew(organization, near)).toMatchObject({ day: '2030-01-16', isMended: false })
  expect(await renew(organization, far)).toMatchObject({ day: '2030-01-15', isMended: true })
})

test('the database’s clock that jumps for a moment leaves the sums as they were', async () => {
  for (const jumpMs of [-25 * HOUR_MS, -2 * HOUR_MS, 5 * SECOND_MS, 20 * HOUR_MS, 40 * DAY_MS]) {
    const organization = await house.organization(10_000n)
    await post(organization, OWN, NOON_MS - 25 * HOUR_MS, 5n)
    await post(organization, OWN, NOON_MS, 10n)
    await renew(organization, NOON_MS)
    await post(organization, OTHER, NOON_MS, 300n)
    // The process counts on as before; its renewal meets the false clock.
    await renew(organization, NOON_MS + SECOND_MS, { atMs: NOON_MS + jumpMs, slot: OTHER })
    const after = await renew(organization, NOON_MS + 2 * SECOND_MS)
    expect({ jumpMs, ...after }).toMatchObject({ jumpMs, day: '2030-01-15', spent: 310n, month_spent: 315n })
  }
})

test.each([
  ['day', 100n, NOON_MS + DAY_MS],
  ['month', 0n, NOON_MS + 20 * DAY_MS],
])('a process that counts another %s than the account is granted nothing of its limit', async (_, daily, processMs) => {
  const organization = await house.organization(10_000n)
  await setLimit(house.database, organization, {
    monthlyMicrocents: 160n,
    dailyMicrocents: daily,
    enforcement: 'block_launch',
    autoTerminateHours: undefined,
  })
  const want = { admission: 40n, least: 40n, extension: 0n, giveBack: null }
  expect(await renew(organization, processMs, { atMs: NOON_MS, want })).toMatchObject({
    day: '2030-01-15',
    granted: 0n,
  })
  expect(await renew(organization, NOON_MS, { want })).toMatchObject({ day: '2030-01-15', granted: 40n })
})

test('the hour of a new account forgets the minutes that are yet to come', async () => {
  const organization = await house.organization(10_000n, { newSinceMs: NOON_MS - HOUR_MS })
  await post(organization, OWN, NOON_MS, 10n)
  await post(organization, OWN, NOON_MS + 20 * MINUTE_MS, 500n)
  expect(await renew(organization, NOON_MS + 20 * MINUTE_MS)).toMatchObject({ hour: 510n })
  await post(organization, OWN, NOON_MS + 21 * MINUTE_MS, 7_000n)
  expect(await renew(organization, NOON_MS)).toMatchObject({ hour: 10n })
  const minutes = await house.database.query<{ minute: Date }>(
    'select minute from account_minutes where organization_id = $1::uuid',
    [organization],
  )
  expect(minutes.map(({ minute }) => toTimestamp(minute.getTime()))).toEqual([toTimestamp(NOON_MS)])
})
