/** The two ends of an instance's life: when it begins to cost, when it has failed, and what its deletion waits for. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { type InstanceHouse, openInstanceHouse } from '../../test/instanceHouse.ts'
import { GPU_HOUR_MICROCENTS, INSTANCE_SETTINGS } from '../../test/instanceProcess.ts'
import { priceInstanceLife } from '../billing/charges/pricing.ts'
import type { Database } from '../infra/postgres/database.ts'
import { SECOND_MS } from '../lib/time.ts'
import { readBurnCents } from './burn.ts'
import { chooseInstance } from './choose.ts'
import { createInstance, newCreation } from './create.ts'
import { CreateRefused } from './drivers/driver.ts'
import { driverNameOf } from './job/instance.ts'

const CENT = 1_000_000n
const TIMEOUT_SECONDS = INSTANCE_SETTINGS.createTimeoutMs / SECOND_MS
const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30, 0, 250))
let house: InstanceHouse
beforeAll(async () => {
  house = await openInstanceHouse(clock, { liveMost: 100 })
})
afterAll(() => house.drop())
beforeEach(() => {
  house.driver.next = 'running'
  house.driver.before = () => {}
})

async function live(seconds: number, stepSeconds = 1): Promise<void> {
  for (let left = seconds; left > 0; left -= stepSeconds) {
    await clock.turn(stepSeconds * SECOND_MS)
    await house.work()
  }
}

const rented = async () => house.create(await house.organization(10_000n * CENT), { diskGb: 0 })

const REQUEST = { app: 'server', gpuType: 'a100', gpuCount: 1, diskGb: 0, model: null, name: null }

test('one that the driver refuses, such as on a full host, has failed at once: it is never asked for again, and costs nothing', async () => {
  const asked: string[] = []
  house.driver.before = (question, name) => {
    asked.push(`${question} ${name}`)
    if (question === 'create') throw new CreateRefused()
  }
  const instance = await rented()
  await house.work()
  expect(await house.find(instance)).toMatchObject({ state: 'failed', reason: 'create_refused' })
  await live(2 * TIMEOUT_SECONDS, 60)
  const name = driverNameOf(instance.id)
  expect(asked.filter((each) => each.endsWith(name))).toEqual([`create ${name}`, `delete ${name}`, `status ${name}`])
  expect(await house.operations(instance)).toMatchObject([
    { state: 'failed', errorDetail: expect.stringContaining('Nothing was charged. Try again later') },
  ])
  expect(await house.charged(instance)).toMatchObject({ microcents: 0n, charges: 0 })
  expect(await house.disagreements()).toEqual([])
})

test('one that a full host refuses while another leaves it is asked for again', async () => {
  const leaving = await rented()
  await house.work()
  expect(await house.find(leaving)).toMatchObject({ state: 'running' })
  let isFull = true
  house.driver.before = (question) => {
    if (question === 'create' && isFull) throw new CreateRefused(true)
    // Its place is free only once it is gone.
    if (question === 'delete' && isFull) throw new Error('not yet')
  }
  await house.delete(leaving)
  const next = await rented()
  await house.work()
  expect(await house.find(next)).toMatchObject({ state: 'creating' })
  isFull = false
  await live(20)
  expect(await house.find(next)).toMatchObject({ state: 'running' })
  isFull = true
  const last = await rented()
  await house.work()
  expect(await house.find(last)).toMatchObject({ state: 'failed', reason: 'create_refused' })
  house.driver.before = () => {}
})

test('the time that a request waits before it is accepted costs nothing', async () => {
  const organizationId = await house.organization(10_000n * CENT)
  const means = house.process()
  const slow: Database = Object.create(house.database, {
    transaction: {
      value: async (work: Parameters<Database['transaction']>[0], name?: string) => {
        await clock.turn(30 * SECOND_MS)
        return house.database.transaction(work, name)
      },
    },
  })
  const chosen = chooseInstance(means.settings, { ...REQUEST, expectedPricePerHourCents: 123 })
  if (!chosen.ok) throw new Error(chosen.refusal.message)
  const principalId = '00000000-0000-4000-8000-000000000001'
  const creation = newCreation(means, { organizationId, principalId }, chosen.value)
  expect(await createInstance({ ...means, database: slow }, creation, [])).toBeNull()
  const instance = await house.find({ id: creation.instance.id, organizationId })
  expect(instance.createdAtMs).toBe(clock.now())
  await house.work()
  await live(20)
  await house.delete(instance)
  expect((await house.charged(instance)).seconds).toBe(20)
})

describe('one that does not run in time', () => {
  test('fails then, not a pause later, though its driver gives no answer', async () => {
    const instance = await rented()
    house.driver.before = () => {
      throw new Error('it hangs')
    }
    await live(TIMEOUT_SECONDS - 1)
    expect((await house.find(instance)).state).toBe('creating')
    await live(2)
    expect(await house.find(instance)).toMatchObject({ state: 'failed', reason: 'create_timeout' })
  })

  test('is looked at once more: where no process asked meanwhile, it may run', async () => {
    house.driver.next = 'creating'
    const instance = await rented()
    await house.work()
    house.driver.set(instance, 'running')
    await clock.turn((TIMEOUT_SECONDS + 60) * SECOND_MS)
    await live(3)
    expect((await house.find(instance)).state).toBe('running')
    await house.delete(instance)
    expect(await house.disagreements()).toEqual([])
  })
})

test('the deletion of one that has failed has succeeded when its machine is gone, not before', async () => {
  house.driver.next = 'ended'
  const instance = await rented()
  house.driver.before = (question) => {
    if (question === 'delete') throw new Error('not now')
  }
  await live(3)
  expect((await house.find(instance)).state).toBe('failed')
  expect(await house.delete(instance)).toMatchObject({ state: 'pending' })
  await live(3)
  const state = async () => (await house.operations(instance)).find(({ kind }) => kind === 'instance.delete')?.state
  expect(house.driver.machines.has(driverNameOf(instance.id))).toBe(true)
  expect(await state()).not.toBe('succeeded')
  house.driver.before = () => {}
  await live(70)
  expect(house.driver.machines.has(driverNameOf(instance.id))).toBe(false)
  expect(await state()).toBe('succeeded')
  await house.database.query('delete from operations where resource_id = $1::uuid', [instance.id])
  expect(await house.delete(instance)).toMatchObject({ state: 'succeeded' })
})

test('the row of one that has ended says up to where it is settled', async () => {
  const instance = await rented()
  await house.work()
  await live(95)
  await house.delete(instance)
  expect((await house.find(instance)).settledSecond).toBe(95)
  expect((await house.charged(instance)).microcents).toBe(priceInstanceLife(GPU_HOUR_MICROCENTS, 95))
})

test('a burn of less than half a cent an hour is told as 1: 0 says that nothing lives', async () => {
  const instance = await rented()
  const { organizationId } = instance
  await house.database.query('update instances set hour_microcents = 400000 where id = $1::uuid', [instance.id])
  expect(await readBurnCents(house.database, organizationId)).toBe(1)
  await house.database.query('delete from instances where id = $1::uuid', [instance.id])
  expect(await readBurnCents(house.database, organizationId)).toBe(0)
})

test('a new account is not told to wait for an instance that costs more than its cap in an hour', async () => {
  const organization = await house.organization(100_000n * CENT, { newSinceMs: clock.now() })
  const settings = {
    ...INSTANCE_SETTINGS,
    gpuTypes: INSTANCE_SETTINGS.gpuTypes.map((gpu) => ({ ...gpu, gpuHourMicrocents: 2_001n * CENT })),
  }
  const means = house.process({ settings })
  const chosen = chooseInstance(settings, { ...REQUEST, expectedPricePerHourCents: 2_001 })
  if (!chosen.ok) throw new Error(chosen.refusal.message)
  const creation = newCreation(means, { organizationId: organization, principalId: organization }, chosen.value)
  const refused = await createInstance(means, creation, [])
  expect(refused?.code).toBe('quota_exceeded')
  expect(refused?.message).not.toMatch(/Wait/)
})

test('a request without money is refused for that where the disk is used up too', async () => {
  const rich = await house.organization(10_000n * CENT)
  const all = await house.create(rich, { diskGb: 100 })
  const second = await house.create(rich, { diskGb: 100 })
  expect(await house.refusal(rich, { diskGb: 100 })).toMatchObject({ code: 'disk_unavailable' })
  const poor = await house.organization(0n)
  expect(await house.refusal(poor, { diskGb: 100 })).toMatchObject({ code: 'insufficient_balance' })
  for (const instance of [all, second]) await house.delete(instance)
  await house.work()
})
