/** Machines that the driver does not know any more, while its lists fail: they cost nothing since. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { type InstanceHouse, openInstanceHouse } from '../../test/instanceHouse.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { reconcileMachines } from './reconcile.ts'

const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 40, 17, 417))
const CENT = 1_000_000n
let house: InstanceHouse
beforeAll(async () => {
  house = await openInstanceHouse(clock, { liveMost: 100 })
})
afterAll(() => house.drop())

test('one that ends by its own time is charged up to the list that first missed it', async () => {
  const organization = await house.organization(10_000n * CENT)
  await house.database.query('update accounts set auto_terminate_hours = 1 where organization_id = $1::uuid', [
    organization,
  ])
  const means = house.process()
  const instance = await house.create(organization)
  await house.work()
  const live = async (minutes: number) => {
    for (let minute = 0; minute < minutes; minute += 1) {
      await clock.turn(MINUTE_MS)
      await house.work()
    }
  }
  await live(10)
  house.driver.set(instance, null)
  await clock.turn(20 * SECOND_MS)
  await reconcileMachines(means, () => false)
  const missedAfter = Math.floor((clock.now() - instance.createdAtMs) / SECOND_MS)
  house.driver.before = (question) => {
    if (question === 'list') throw new Error('away')
  }
  await live(60)
  house.driver.before = () => {}
  expect((await house.find(instance)).reason).toBe('auto_terminate')
  expect((await house.charged(instance)).seconds).toBe(missedAfter)
  expect(await house.disagreements()).toEqual([])
})
