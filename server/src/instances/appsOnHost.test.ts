/** An app that really runs is billed for its life, by a clock that the test turns. Needs root. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { TurnedClock } from '../../test/clock.ts'
import { type InstanceHouse, openInstanceHouse } from '../../test/instanceHouse.ts'
import { INSTANCE_SETTINGS } from '../../test/instanceProcess.ts'
import {
  askMachine,
  LISTENER_COMMAND,
  NO_MACHINES_HERE,
  onThisHost,
  openProcessMachines,
  type ProcessMachines,
} from '../../test/processMachines.ts'
import { SECOND_MS } from '../lib/time.ts'
import { filesOf } from './drivers/process/spec.ts'
import type { InstanceDependencies } from './job/dependencies.ts'
import { driverNameOf, type Instance } from './job/instance.ts'
import { reconcileMachines } from './reconcile.ts'

const CENT = 1_000_000n
const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30, 20, 400))
const never = new AbortController().signal

describe.skipIf(NO_MACHINES_HERE !== null)(onThisHost('an app'), () => {
  let house: InstanceHouse
  let machines: ProcessMachines
  let means: InstanceDependencies
  beforeAll(async () => {
    house = await openInstanceHouse(clock)
    machines = await openProcessMachines()
    const [server] = INSTANCE_SETTINGS.apps
    if (server === undefined) throw new Error('there is no app')
    const apps = [{ ...server, image: null, command: [...LISTENER_COMMAND, 'orphan'] }]
    means = house.process({ driver: machines.driver, settings: { ...INSTANCE_SETTINGS, apps } })
  })
  afterAll(async () => {
    await machines.close()
    await house.drop()
  })

  async function running(): Promise<Instance> {
    const instance = await house.create(await house.organization(1_000n * CENT))
    await house.work(means)
    await machines.until(driverNameOf(instance.id), 'running')
    await live(2)
    expect((await house.find(instance)).state).toBe('running')
    return instance
  }

  async function live(seconds: number): Promise<void> {
    for (let left = seconds; left > 0; left -= 2) {
      await clock.turn(2 * SECOND_MS)
      await house.work(means)
    }
  }

  test('that is deleted costs its life to the second, and nothing runs on', async () => {
    const instance = await running()
    await live(180)
    await house.delete(instance, means)
    const lifeSeconds = (clock.now() - instance.createdAtMs) / SECOND_MS
    await live(30)
    expect(Math.abs((await house.charged(instance)).seconds - lifeSeconds)).toBeLessThanOrEqual(1)
    expect((await house.find(instance)).state).toBe('terminated')
    expect(await machines.driver.status(driverNameOf(instance.id), never)).toBeNull()
    expect(await house.disagreements()).toEqual([])
  })

  test('that ends by itself is charged up to the list that says so', async () => {
    const instance = await running()
    await live(120)
    const machine = await machines.driver.status(driverNameOf(instance.id), never)
    if (machine === null) throw new Error('it is not there')
    await askMachine(machine, '/exit')
    while ((await machines.driver.status(driverNameOf(instance.id), never))?.state !== 'ended');
    await reconcileMachines(means, () => false)
    const lifeSeconds = (clock.now() - instance.createdAtMs) / SECOND_MS
    await live(30)
    expect(await house.find(instance)).toMatchObject({ state: 'terminated', reason: 'app_ended' })
    expect(Math.abs((await house.charged(instance)).seconds - lifeSeconds)).toBeLessThanOrEqual(1)
    expect(await house.disagreements()).toEqual([])
  })

  test('that finds the host full fails at once and costs nothing; one that comes while another is being deleted gets its place', async () => {
    const few = await openProcessMachines([], { machinesMost: 1, firstUid: machines.settings.firstUid + 50 })
    const narrow = { ...means, driver: few.driver }
    const rented = async () => {
      const instance = await house.create(await house.organization(1_000n * CENT))
      await house.work(narrow)
      return instance
    }
    try {
      const first = await rented()
      await few.until(driverNameOf(first.id), 'running')
      const second = await rented()
      expect(await house.find(second)).toMatchObject({ state: 'failed', reason: 'create_refused' })
      expect(await house.charged(second)).toMatchObject({ microcents: 0n })
      await writeFile(filesOf(few.settings.directory, driverNameOf(first.id)).deleting, '')
      const third = await rented()
      expect((await house.find(third)).state).toBe('creating')
      await house.delete(first, narrow)
      while ((await house.find(third)).state === 'creating') {
        await clock.turn(2 * SECOND_MS)
        await house.work(narrow)
      }
      expect((await house.find(third)).state).toBe('running')
      expect(await few.driver.status(driverNameOf(second.id), never)).toBeNull()
      await house.delete(third, narrow)
      await house.work(narrow)
    } finally {
      await few.close()
    }
  })
})
