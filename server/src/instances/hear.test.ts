/** Changes that a driver tells by itself: they end what has ended, and harm nothing else. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { type InstanceHouse, openInstanceHouse } from '../../test/instanceHouse.ts'
import { hearOfChanges } from './hear.ts'
import { driverNameOf, type Instance } from './job/instance.ts'

let house: InstanceHouse
let clock: TurnedClock
let organizationId: string
let tell: (name: string) => void
let woken: () => Promise<void>
let stop: () => Promise<void>

beforeAll(async () => {
  clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30))
  house = await openInstanceHouse(clock)
})
afterAll(() => house.drop())
beforeEach(async () => {
  // Instances that another test has left take no disk.
  await house.database.query('update instances set disk_gb = 0')
  organizationId = await house.organization(10_000_000_000n)
  const wakes: (() => void)[] = []
  let unheard = 0
  const wake = () => {
    unheard += 1
    for (const each of wakes.splice(0)) each()
  }
  woken = async () => {
    if (unheard === 0) await new Promise<void>((resolve) => wakes.push(resolve))
    unheard -= 1
  }
  const driver = {
    ...house.driver,
    watch: async (told: (name: string) => void, signal: AbortSignal) => {
      tell = told
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    },
  }
  stop = hearOfChanges(house.process({ driver }), wake)
})

async function running(): Promise<Instance> {
  const instance = await house.create(organizationId)
  await house.work()
  return house.find(instance)
}

test('an instance whose app has ended ends when that is told, without a list', async () => {
  const [instance, other] = [await running(), await running()]
  await clock.turn(7_400)
  house.driver.set(instance, 'ended')
  tell(driverNameOf(instance.id))
  await woken()
  await house.work()
  expect(await house.find(instance)).toMatchObject({ reason: 'app_ended', endedAtMs: clock.now() })
  expect((await house.charged(instance)).seconds).toBe(7)
  expect((await house.find(other)).state).toBe('running')
  expect(await house.disagreements()).toEqual([])
  await stop()
})

test('one that runs on, or that the driver does not find, stays as it is', async () => {
  const [instance, missing] = [await running(), await running()]
  house.driver.set(missing, null)
  for (const each of [instance, missing]) {
    tell(driverNameOf(each.id))
    await woken()
    await house.work()
    // Two lists in a row must miss it.
    expect(await house.find(each)).toMatchObject({ state: 'running', missingSinceMs: null })
  }
  await stop()
})

test('names of others, and instances that are over, are nothing to it', async () => {
  const instance = await running()
  await house.delete(instance)
  await house.work()
  const asked: string[] = []
  house.driver.before = (question, name) => void asked.push(`${question} ${name}`)
  for (const name of ['other', 'tollgate-', 'tollgate-x', driverNameOf(instance.id)]) tell(name)
  await woken()
  await house.work()
  house.driver.before = () => {}
  expect([asked, (await house.find(instance)).state]).toEqual([[], 'terminated'])
  await stop()
})

test('a process that stops hears nothing any more', async () => {
  await stop()
  const plain = hearOfChanges(house.process(), () => {})
  await plain()
})
