/** Two processes renew at midnight at the same moment: the new day has all that was charged on it, whoever folded it. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { FastClock, type House, openHouse } from '../../../../test/moneyHouse.ts'
import { until } from '../../../../test/until.ts'
import { SECOND_MS } from '../../../lib/time.ts'
import { ensureChargePartition } from '../../charges/partitions/prepare.ts'
import { postCharges } from '../../charges/post.ts'
import type { Want } from '../wants.ts'
import { renewShares } from './renew.ts'

const MIDNIGHT_MS = Date.UTC(2030, 1, 1)
const [EARLY, LATE] = [1, 2]
const NOTHING: Want = { admission: 0n, least: 0n, extension: 0n, giveBack: 0n }

let house: House
beforeAll(async () => {
  house = await openHouse(new FastClock(MIDNIGHT_MS))
  await ensureChargePartition(house.database, MIDNIGHT_MS)
})
afterAll(() => house.drop())

test('a renewal that comes to the new day behind one that was still in the old day counts what that has folded', async () => {
  const organization = await house.organization(100_000n)
  const wants = new Map([[organization, NOTHING]])
  await renewShares(house.database, EARLY, wants, MIDNIGHT_MS - SECOND_MS)
  await postCharges(house.database, EARLY, [house.charge(organization, 30_000n)], MIDNIGHT_MS)
  await postCharges(house.database, LATE, [house.charge(organization, 400n)], MIDNIGHT_MS)
  let waiting: Promise<unknown> = Promise.resolve()
  await house.database.transaction(async (tx) => {
    // Its process read the clock before midnight. The charge that it folds is of no day of the account yet.
    await renewShares(tx, EARLY, wants, MIDNIGHT_MS - 1)
    waiting = renewShares(house.database, LATE, wants, MIDNIGHT_MS + SECOND_MS)
    const words = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    await until(async () => (await house.database.query(words)).length > 0)
  })
  await waiting
  const figures = () =>
    house.database.query(
      `select to_char(day, 'YYYY-MM-DD') as day, day_spent_microcents as day_spent, month_spent_microcents as month_spent,
         balance_microcents as balance from accounts where organization_id = $1::uuid`,
      [organization],
    )
  expect(await figures()).toEqual([{ day: '2030-02-01', day_spent: 30_400n, month_spent: 30_400n, balance: 69_600n }])
  expect(await house.imbalances()).toEqual([])
})
