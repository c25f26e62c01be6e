/** The life of instances beside their money: what is refused, what the driver loses, and what its failures do. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { type InstanceHouse, openInstanceHouse } from '../../test/instanceHouse.ts'
import { GPU_HOUR_MICROCENTS, INSTANCE_SETTINGS } from '../../test/instanceProcess.ts'
import { priceInstanceLife } from '../billing/charges/pricing.ts'
import type { InstanceSettings } from '../catalog/offering.ts'
import { SECOND_MS } from '../lib/time.ts'
import { chooseInstance, type InstanceRequest } from './choose.ts'
import { driverNameOf, type Instance } from './job/instance.ts'
import { reconcileMachines } from './reconcile.ts'
import { takeDueInstances } from './store.ts'
import { workOn } from './work.ts'

const CENT = 1_000_000n
const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30, 0, 250))
let house: InstanceHouse
beforeAll(async () => {
  house = await openInstanceHouse(clock)
})
afterAll(() => house.drop())
beforeEach(async () => {
  house.driver.next = 'running'
  house.driver.before = () => {}
  // Instances that another test has left take no disk.
  await house.database.query('update instances set disk_gb = 0')
})

const means = () => house.process()

async function live(seconds: number, stepSeconds = 10): Promise<void> {
  for (let left = seconds; left > 0; left -= stepSeconds) {
    await clock.turn(stepSeconds * SECOND_MS)
    await house.work()
  }
}

async function running(cents = 1_000n): Promise<Instance> {
  const instance = await house.create(await house.organization(cents * CENT))
  await house.work()
  return house.find(instance)
}

describe('a request', () => {
  test.each<[Partial<InstanceRequest>, string]>([
    [{ gpuType: 'b200' }, 'invalid_gpu_type'],
    [{ gpuCount: 5 }, 'invalid_gpu_type'],
    [{ app: 'no-such' }, 'validation_failed'],
    [{ diskGb: 101 }, 'disk_exceeds_offering'],
    [{ gpuType: 'free', diskGb: 0, expectedPricePerHourCents: 0 }, 'gpu_vram_too_small'],
    [{ model: 'no-such' }, 'model_not_found'],
    [{ model: 'huge', gpuCount: 4 }, 'model_too_large'],
    [{ expectedPricePerHourCents: 122 }, 'price_changed'],
    [{ gpuCount: 2, expectedPricePerHourCents: 246 }, 'price_changed'],
    [{ gpuCount: 3, expectedPricePerHourCents: 3 * 123 }, 'price_changed'],
    // The model is looked for before all that does not fit (E1).
    [{ model: 'no-such', gpuCount: 5, diskGb: 101 }, 'model_not_found'],
  ])('for %p is refused: %s', async (request, code) => {
    const organization = await house.organization(1_000n * CENT)
    expect(await house.refusal(organization, request)).toMatchObject({ code })
    expect(
      await house.database.query('select id from instances where organization_id = $1::uuid', [organization]),
    ).toEqual([])
  })

  test('is accepted at the price of its GPUs together, rounded once', async () => {
    const organization = await house.organization(1_000n * CENT)
    const request = { diskGb: 0, gpuCount: 3, expectedPricePerHourCents: 370 }
    expect(await house.refusal(organization, request)).toBeNull()
  })

  test('for an app on the host that can not start without a model is refused where none is named', () => {
    const [gpu] = INSTANCE_SETTINGS.gpuTypes
    const [server] = INSTANCE_SETTINGS.apps
    if (gpu === undefined || server === undefined) throw new Error('there are no offerings')
    const choose = (kind: 'process' | 'command', model: string | null) => {
      const driver = { ...INSTANCE_SETTINGS.driver, kind } as InstanceSettings['driver']
      const apps = [{ ...server, image: null, command: ['/usr/bin/serve', '--model={model}'] }]
      return chooseInstance(
        { ...INSTANCE_SETTINGS, driver, apps },
        {
          ...{ app: 'server', gpuType: 'a100', gpuCount: 1, diskGb: 0, model, name: null },
          expectedPricePerHourCents: 123,
        },
      )
    }
    expect(choose('process', null)).toMatchObject({ refusal: { code: 'validation_failed', param: 'model' } })
    expect(choose('process', 'small').ok).toBe(true)
    // An operator's program may do with the words as it likes.
    expect(choose('command', null).ok).toBe(true)
  })

  test('is refused where the balance does not cover the first ten minutes, and holds nothing then', async () => {
    const organization = await house.organization(priceInstanceLife(GPU_HOUR_MICROCENTS, 600) - 1n)
    expect(await house.refusal(organization)).toMatchObject({ code: 'insufficient_balance' })
    expect(await house.disagreements()).toEqual([])
  })

  test('is refused beyond the disk that all instances of a GPU type may have', async () => {
    const organization = await house.organization(10_000n * CENT)
    expect(await house.refusal(organization, { diskGb: 100 })).toBeNull()
    expect(await house.refusal(organization, { diskGb: 100 })).toBeNull()
    expect(await house.refusal(organization, { diskGb: 51 })).toMatchObject({ code: 'disk_unavailable' })
    expect(await house.refusal(organization, { diskGb: 50 })).toBeNull()
    expect(await house.refusal(organization, { diskGb: 0 })).toMatchObject({ code: 'quota_exceeded' })
  })

  test('is refused while as many as there may be are live or being deleted', async () => {
    const organization = await house.organization(10_000n * CENT)
    const instances: Instance[] = []
    for (let made = 0; made < 3; made += 1) instances.push(await house.create(organization, { diskGb: 0 }))
    for (const instance of instances) await house.delete(instance)
    expect(await house.refusal(organization, { diskGb: 0 })).toMatchObject({ code: 'quota_exceeded' })
    await live(10)
    expect(await house.refusal(organization, { diskGb: 0 })).toBeNull()
  })

  test('is refused after 60 that were deleted at once, until the first of these is an hour old', async () => {
    const organization = await house.organization(10_000n * CENT)
    for (let made = 0; made < 60; made += 1) {
      const instance = await house.create(organization, { diskGb: 0 })
      await clock.turn(9 * SECOND_MS)
      await house.delete(instance)
      await clock.turn(SECOND_MS)
      await house.work()
    }
    const refused = await house.refusal(organization, { diskGb: 0 })
    expect(refused).toMatchObject({ code: 'rate_limited', retryAfterSeconds: 3_600 - 59 * 10 })
    expect(await house.refusal(await house.organization(1_000n * CENT), { diskGb: 0 })).toBeNull()
    await clock.turn((3_600 - 59 * 10 - 1) * SECOND_MS)
    expect(await house.refusal(organization, { diskGb: 0 })).toMatchObject({ code: 'rate_limited' })
    await clock.turn(SECOND_MS)
    expect(await house.refusal(organization, { diskGb: 0 })).toBeNull()
  })

  test('of ten seconds or more of life is not counted as deleted at once', async () => {
    const organization = await house.organization(10_000n * CENT)
    for (let made = 0; made < 61; made += 1) {
      const instance = await house.create(organization, { diskGb: 0 })
      await clock.turn(10 * SECOND_MS)
      await house.delete(instance)
      await house.work()
    }
    expect(await house.refusal(organization, { diskGb: 0 })).toBeNull()
  })

  test('of many at once, as many are accepted as the organization may have, and the money covers', async () => {
    const organization = await house.organization(2n * priceInstanceLife(GPU_HOUR_MICROCENTS, 600) + 5n)
    const refusals = await Promise.all(Array.from({ length: 6 }, () => house.refusal(organization, { diskGb: 0 })))
    expect(refusals.filter((refusal) => refusal === null)).toHaveLength(2)
    expect(await house.disagreements()).toEqual([])
  })
})

test('tells each event once, and the operation ends with where it answers', async () => {
  const instance = await running()
  await live(120)
  await house.delete(instance)
  await live(20)
  expect(await house.events(instance)).toEqual([
    'instance.creating creating',
    'instance.running running',
    'instance.terminated terminated',
  ])
  const appUrl = `http://machine.test/${driverNameOf(instance.id)}`
  expect(await house.operations(instance)).toMatchObject([
    { kind: 'instance.create', state: 'succeeded', result: { appUrl, terminalUrl: null } },
    { kind: 'instance.delete', state: 'succeeded' },
  ])
  expect(house.driver.machines.has(driverNameOf(instance.id))).toBe(false)
})

test('the operation of a deletion is in progress from when the driver is asked until nothing is left', async () => {
  const instance = await running()
  await house.delete(instance)
  const state = async () => (await house.operations(instance)).find(({ kind }) => kind === 'instance.delete')?.state
  expect(await state()).toBe('pending')
  house.driver.before = (question) => {
    if (question === 'delete') throw new Error('not now')
  }
  await live(10)
  expect(await state()).toBe('in_progress')
  house.driver.before = () => {}
  await live(70)
  expect(await state()).toBe('succeeded')
})

test('a second deletion by the same principal is answered with the first, and charges nothing', async () => {
  const instance = await running()
  await live(60)
  const first = await house.delete(instance)
  const charged = await house.charged(instance)
  expect((await house.delete(instance))?.id).toBe(first?.id)
  await live(20)
  expect(await house.delete(instance)).toMatchObject({ id: first?.id, state: 'succeeded' })
  expect(await house.charged(instance)).toEqual(charged)
})

test("another organization's instance is not there to be deleted", async () => {
  const instance = await running()
  const stranger = await house.organization(0n)
  expect(await house.delete({ id: instance.id, organizationId: stranger })).toBeNull()
  expect((await house.find(instance)).state).toBe('running')
})

describe('a driver', () => {
  test('that gives no answer is asked again, and makes no second machine', async () => {
    const instance = await house.create(await house.organization(1_000n * CENT))
    let failures = 0
    house.driver.before = () => {
      failures += 1
      if (failures <= 3) throw new Error('it hangs')
    }
    await live(60, 2)
    expect((await house.find(instance)).state).toBe('running')
    expect(house.driver.made.get(driverNameOf(instance.id))).toBe(1)
  })

  test('that made the machine and lost the answer is asked for its state, and makes no second', async () => {
    const instance = await house.create(await house.organization(1_000n * CENT))
    const { driver } = house
    const { create } = driver
    const lossy = {
      ...driver,
      create: async (...asked: Parameters<typeof create>) => {
        await create(...asked)
        throw new Error('the answer was lost')
      },
    }
    await house.work({ ...means(), driver: lossy })
    await live(10)
    expect((await house.find(instance)).state).toBe('running')
    expect(driver.made.get(driverNameOf(instance.id))).toBe(1)
  })

  test('that can not delete is asked until it can; the instance costs nothing meanwhile', async () => {
    const instance = await running()
    await live(60)
    await house.delete(instance)
    house.driver.before = (question) => {
      if (question === 'delete') throw new Error('not now')
    }
    const charged = await house.charged(instance)
    await live(300)
    expect((await house.find(instance)).state).toBe('terminating')
    expect(await house.charged(instance)).toEqual(charged)
    house.driver.before = () => {}
    await live(70)
    expect((await house.find(instance)).state).toBe('terminated')
  })
})

test('organizations take turns at the driver: one with many that are due keeps no other waiting', async () => {
  await house.work()
  const [many, few] = [await house.organization(1_000n * CENT), await house.organization(1_000n * CENT)]
  const own: string[] = []
  for (let made = 0; made < 3; made += 1) own.push((await house.create(many, { diskGb: 0 })).id)
  await clock.turn(1)
  const late = await house.create(few, { diskGb: 0 })
  const take = (limit: number, inWork: readonly string[], mostOfOne = 12) => {
    const nowMs = clock.now()
    return takeDueInstances(house.database, { nowMs, untilMs: nowMs + 30_000, limit, own: inWork, mostOfOne })
  }
  const first = await take(2, [])
  expect(first.map(({ organizationId }) => organizationId).sort()).toEqual([many, few].sort())
  // Those in hand count too.
  const later = await house.create(few, { diskGb: 0 })
  const second = await take(
    1,
    first.map(({ id }) => id).filter((id) => id !== late.id),
  )
  expect(second.map(({ id }) => id)).toEqual([later.id])
  // Two of the first organization are due still: it gets no more than its part of a process.
  expect(await take(2, own.slice(0, 1), 1)).toEqual([])
  expect(await take(2, own.slice(0, 1), 2)).toHaveLength(1)
  await live(60)
})

describe('the list of machines', () => {
  const list = () => reconcileMachines(means(), () => false)

  test('ends an instance that two lists in a row do not have, which costs nothing since the first', async () => {
    const instance = await running()
    await live(100)
    house.driver.set(instance, null)
    await list()
    const missedAfter = Math.floor((clock.now() - instance.createdAtMs) / SECOND_MS)
    await live(60)
    expect((await house.find(instance)).state).toBe('running')
    await list()
    await live(10)
    expect(await house.find(instance)).toMatchObject({ state: 'terminated', reason: 'lost' })
    expect((await house.charged(instance)).seconds).toBe(missedAfter)
    expect(await house.disagreements()).toEqual([])
  })

  test('one that has it again leaves it running, and charged whole', async () => {
    const instance = await running()
    await clock.turn(60_000)
    house.driver.set(instance, null)
    await list()
    await live(60)
    house.driver.set(instance, 'running')
    await list()
    await live(120)
    await house.delete(instance)
    expect((await house.charged(instance)).seconds).toBe(240)
    expect((await house.find(instance)).reason).toBe('deleted')
  })

  test('is asked for once a minute, whoever asks', async () => {
    let lists = 0
    house.driver.before = (question) => {
      if (question === 'list') lists += 1
    }
    await clock.turn(60_000)
    await Promise.all([list(), list(), list()])
    await list()
    expect(lists).toBe(1)
  })

  test('ends an instance whose app has ended, when that is seen', async () => {
    const instance = await running()
    await live(130)
    house.driver.set(instance, 'ended')
    await list()
    await live(10)
    expect(await house.find(instance)).toMatchObject({ state: 'terminated', reason: 'app_ended' })
    expect((await house.charged(instance)).seconds).toBe(130)
  })

  test('a machine of an instance that is over is deleted; one of nobody is left, and both are reported', async () => {
    const instance = await running()
    await house.delete(instance)
    await live(20)
    house.driver.set(instance, 'running')
    const nobody = { id: '01900000-0000-7000-8000-000000000000' }
    house.driver.set(nobody, 'running')
    const errors: unknown[] = []
    const log = { ...means().log, error: (...said: unknown[]) => void errors.push(said[0]) }
    await clock.turn(60_000)
    await reconcileMachines({ ...means(), log }, () => false)
    expect(errors).toMatchObject([{ machines: 2, removed: 1 }])
    await live(10)
    expect(house.driver.machines.has(driverNameOf(instance.id))).toBe(false)
    expect(house.driver.machines.has(driverNameOf(nobody.id))).toBe(true)
    house.driver.set(nobody, null)
  })
})

test('a process that was stopped for five minutes changes nothing when it goes on, and leaves no machine behind', async () => {
  const instance = await house.create(await house.organization(1_000n * CENT))
  const slow = means()
  const nowMs = clock.now()
  const taken = await takeDueInstances(house.database, {
    nowMs,
    untilMs: nowMs + 30_000,
    limit: 50,
    own: [],
    mostOfOne: 50,
  })
  const own = taken.find(({ id }) => id === instance.id)
  if (own === undefined) throw new Error('the instance was not due')
  let goOn = () => {}
  let isStopped = false
  const stopped = {
    ...slow,
    reached: (step: string) => {
      if (step !== 'started') return
      isStopped = true
      return new Promise<void>((resolve) => {
        goOn = resolve
      })
    },
  }
  const working = workOn(stopped, own, new AbortController().signal)
  await live(150)
  expect(isStopped).toBe(true)
  expect((await house.find(instance)).state).toBe('running')
  await house.delete(instance)
  await live(150)
  expect((await house.find(instance)).state).toBe('terminated')
  goOn()
  await working
  // It made the machine that another process had made and deleted before: the list finds it.
  await clock.turn(60_000)
  await reconcileMachines(means(), () => false)
  await live(10)
  expect(house.driver.machines.has(driverNameOf(instance.id))).toBe(false)
  expect((await house.find(instance)).state).toBe('terminated')
  expect((await house.charged(instance)).seconds).toBe(150)
  expect(await house.events(instance)).toHaveLength(3)
  expect(await house.disagreements()).toEqual([])
})
