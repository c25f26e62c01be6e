/** The cost of instances: by the second, within the money that is held, with the clock turned. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { type InstanceHouse, openInstanceHouse } from '../../test/instanceHouse.ts'
import { askForDeletion, askForInstance, GPU_HOUR_MICROCENTS } from '../../test/instanceProcess.ts'
import { readFigures } from '../billing/admission/accounts/figures.ts'
import { placeInstanceHold } from '../billing/admission/holds/instanceHold.ts'
import { priceInstanceLife } from '../billing/charges/pricing.ts'
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { billInstance } from './bill.ts'
import { readBurnCents } from './burn.ts'
import { driverNameOf, type Instance } from './job/instance.ts'
import { takeBillable } from './store.ts'

const CENT = 1_000_000n

/** Not on a minute, nor on a second. */
const clock = new TurnedClock(Date.UTC(2031, 4, 17, 23, 40, 17, 417))
let house: InstanceHouse
beforeAll(async () => {
  house = await openInstanceHouse(clock, { liveMost: 100 })
})
afterAll(() => house.drop())
beforeEach(() => {
  house.driver.next = 'running'
})

/** Turns the clock in steps, with all that is due after each. */
async function live(seconds: number, stepSeconds = 20): Promise<void> {
  for (let left = seconds; left > 0; left -= stepSeconds) {
    await clock.turn(Math.min(left, stepSeconds) * SECOND_MS)
    await house.work()
  }
}

async function running(organizationId: string, gpuCount = 1): Promise<Instance> {
  const instance = await house.create(organizationId, { gpuCount })
  await house.work()
  expect((await house.find(instance)).state).toBe('running')
  return instance
}

const cost = (seconds: number, gpus = 1n) => priceInstanceLife(GPU_HOUR_MICROCENTS * gpus, seconds)

const limit = (organizationId: string, set: string) =>
  house.database.query(`update accounts set ${set} where organization_id = $1::uuid`, [organizationId])

test('is not made while the date is in doubt (E20)', async () => {
  const organization = await house.organization(1_000n * CENT)
  const { money, ...means } = house.process()
  const doubting = { ...means, money: { ...money, knowsTime: () => false } }
  const refusal = { code: 'creator_check_unavailable', retryAfterSeconds: 1 }
  await expect(askForInstance(doubting, organization)).rejects.toMatchObject({ refusal })
  const made = await house.database.query('select id from instances where organization_id = $1::uuid', [organization])
  expect(made).toEqual([])
})

test('is charged by the second from its creation to its deletion, to the micro-cent, over midnight and at odd instants', async () => {
  const organization = await house.organization(1_000n * CENT)
  const instance = await running(organization, 3)
  await live(1_271)
  await clock.turn(600)
  await house.delete(instance)
  const charged = await house.charged(instance)
  expect(charged).toMatchObject({ microcents: cost(1_271, 3n), seconds: 1_271 })
  // One a minute that it touches, and no second charge for a minute.
  expect(charged.charges).toBe(22)
  await live(120)
  expect(await house.charged(instance)).toEqual(charged)
  expect((await house.find(instance)).state).toBe('terminated')
  const figures = await readFigures(house.database, organization, clock.now())
  expect(figures).toMatchObject({
    balanceMicrocents: 1_000n * CENT - cost(1_271, 3n),
    heldMicrocents: 0n,
    burnMicrocents: 0n,
  })
  expect(await house.disagreements()).toEqual([])
})

test('a deletion that had to wait while another process billed ends the instance at the last second that was charged', async () => {
  const organization = await house.organization(1_000n * CENT)
  const instance = await running(organization)
  const begunAtMs = clock.now()
  await live(140)
  const waited = { now: () => begunAtMs, monotonicMs: () => clock.monotonicMs(), after: clock.after.bind(clock) }
  await askForDeletion(house.process({ clock: waited }), instance)
  const { seconds } = await house.charged(instance)
  const { createdAtMs, endedAtMs } = await house.find(instance)
  expect(seconds).toBeGreaterThan(0)
  expect(endedAtMs).toBe(createdAtMs + seconds * SECOND_MS)
})

test('a process whose bill another has taken over charges no second again, and changes no hold', async () => {
  const organization = await house.organization(1_000n * CENT)
  const instance = await running(organization)
  const late = house.process()
  await clock.turn(75 * SECOND_MS)
  const nowMs = clock.now()
  const lease = { nowMs, untilMs: nowMs + 30 * SECOND_MS, limit: 1_000, own: [] }
  const taken = (await takeBillable(house.database, lease)).find(({ id }) => id === instance.id)
  if (taken === undefined) throw new Error('it was not due')
  await live(140)
  const charged = await house.charged(instance)
  expect(charged.charges).toBeGreaterThanOrEqual(3)
  await billInstance(late, taken)
  expect(await house.charged(instance)).toEqual(charged)
  expect(await house.disagreements()).toEqual([])
  await house.delete(instance)
  const whole = await house.charged(instance)
  await live(120)
  await billInstance(late, taken)
  expect(await house.charged(instance)).toEqual(whole)
  expect(await house.disagreements()).toEqual([])
})

test('is charged at least each minute, and the money for the next ten minutes is held', async () => {
  const organization = await house.organization(1_000n * CENT)
  const instance = await running(organization)
  await live(200, 1)
  const { seconds } = await house.charged(instance)
  expect(200 - seconds).toBeLessThan(60)
  const figures = await readFigures(house.database, organization, clock.now())
  const held = figures?.heldMicrocents ?? 0n
  expect(held).toBeGreaterThanOrEqual(cost(600))
  expect(held).toBeLessThanOrEqual(cost(720))
  expect(await readBurnCents(house.database, organization)).toBe(123)
  expect(await house.disagreements()).toEqual([])
  await house.delete(instance)
})

describe('a creation that fails', () => {
  test.each([
    ['is refused by the driver', 'ended' as const, 40],
    ['takes too long', 'creating' as const, 1_000],
  ])('since it %s costs nothing, however long it took', async (_name, next, seconds) => {
    const organization = await house.organization(1_000n * CENT)
    house.driver.next = next
    const instance = await house.create(organization)
    await live(seconds)
    const found = await house.find(instance)
    expect(found.state).toBe('failed')
    expect(await house.charged(instance)).toMatchObject({ microcents: 0n, charges: 0 })
    expect(await house.events(instance)).toEqual(['instance.creating creating', 'instance.failed failed'])
    expect(await house.operations(instance)).toMatchObject([{ state: 'failed', result: null }])
    expect(house.driver.machines.has(driverNameOf(instance.id))).toBe(false)
    expect(await house.disagreements()).toEqual([])
  })

  test('one that its customer deletes is charged up to there, and its operation is cancelled', async () => {
    const organization = await house.organization(1_000n * CENT)
    house.driver.next = 'creating'
    const instance = await house.create(organization)
    await live(95)
    await house.delete(instance)
    await live(5)
    expect(await house.charged(instance)).toMatchObject({ microcents: cost(95), seconds: 95 })
    expect(await house.operations(instance)).toMatchObject([{ state: 'cancelled' }, { state: 'succeeded' }])
    expect(await house.events(instance)).toEqual(['instance.creating creating', 'instance.terminated terminated'])
    expect(await house.disagreements()).toEqual([])
  })

  test('one that ran late is charged from its creation', async () => {
    const organization = await house.organization(1_000n * CENT)
    house.driver.next = 'creating'
    const instance = await house.create(organization)
    await live(400)
    expect(await house.charged(instance)).toMatchObject({ charges: 0 })
    house.driver.set(instance, 'running')
    await live(80)
    await house.delete(instance)
    expect(await house.charged(instance)).toMatchObject({ microcents: cost(480), seconds: 480 })
    expect(await house.disagreements()).toEqual([])
  })
})

describe('money that runs out', () => {
  test('ends the instance when what is held is used up, not later, and the customer was told before', async () => {
    // Twenty minutes, and not a whole number of seconds.
    const organization = await house.organization(cost(1_200) + 7n)
    const instance = await running(organization)
    await live(900)
    const told = await house.database.query('select kind, instance_id from notices where organization_id = $1::uuid', [
      organization,
    ])
    expect(told).toEqual([{ kind: 'instance_ending', instance_id: instance.id }])
    expect((await house.find(instance)).state).toBe('running')
    await live(400)
    const ended = await house.find(instance)
    expect(ended).toMatchObject({ state: 'terminated', reason: 'insufficient_balance' })
    const { seconds, microcents } = await house.charged(instance)
    expect(microcents).toBe(cost(seconds))
    expect(microcents).toBeLessThanOrEqual(cost(1_200) + 7n)
    expect(ended.endedAtMs).toBe(ended.createdAtMs + seconds * SECOND_MS)
    // It goes on for as long as a second's money is left.
    expect(seconds).toBe(1_200)
    expect(await house.disagreements()).toEqual([])
  })

  test('of two instances that are short at one instant, the customer is told of each', async () => {
    const organization = await house.organization(2n * cost(600) + 2n)
    const both = [await running(organization), await running(organization)]
    await live(400)
    const told = await house.database.query<{ id: string }>(
      'select instance_id as id from notices where organization_id = $1::uuid',
      [organization],
    )
    expect(told.map(({ id }) => id).sort()).toEqual(both.map(({ id }) => id).sort())
    await live(300)
  })

  test('credit that comes in time lets it go on', async () => {
    const organization = await house.organization(cost(700))
    const instance = await running(organization)
    await live(500)
    await house.grant(organization, 1_000n * CENT)
    await live(700)
    expect(await house.find(instance)).toMatchObject({ state: 'running', shortSinceMs: null })
    await house.delete(instance)
    expect(await house.disagreements()).toEqual([])
  })

  test('credit that pays for less than the time that is held ahead is used to its last second', async () => {
    const organization = await house.organization(cost(610))
    const instance = await running(organization)
    await live(560)
    await house.grant(organization, cost(96))
    await live(100)
    expect(await house.find(instance)).toMatchObject({ state: 'running' })
    await live(100)
    expect(await house.find(instance)).toMatchObject({ state: 'terminated', reason: 'insufficient_balance' })
    const { seconds, microcents } = await house.charged(instance)
    // Each of the two amounts is rounded down.
    expect(seconds).toBeGreaterThanOrEqual(705)
    expect(microcents).toBeLessThanOrEqual(cost(610) + cost(96))
    expect(await house.disagreements()).toEqual([])
  })

  test('one that nobody came to hold for goes on with the money that there is', async () => {
    const organization = await house.organization(cost(900))
    const instance = await running(organization)
    await clock.turn(700 * SECOND_MS)
    await house.work()
    expect((await house.find(instance)).state).toBe('running')
    await live(320)
    const ended = await house.find(instance)
    expect(ended).toMatchObject({ state: 'terminated', reason: 'insufficient_balance' })
    expect((await house.charged(instance)).seconds).toBe(900)
    expect(await house.disagreements()).toEqual([])
  })

  test('the reason is the gate that leaves nothing: a limit, though the balance would not last either', async () => {
    const organization = await house.organization(cost(1_000))
    await limit(organization, `monthly_limit_microcents = ${cost(800)}, enforcement = 'stop_running'`)
    const instance = await running(organization)
    await live(900)
    expect(await house.find(instance)).toMatchObject({ state: 'terminated', reason: 'spending_limit' })
    expect((await house.charged(instance)).seconds).toBe(800)
  })

  test('a limit that only refuses new ones is no reason to tell that it ends', async () => {
    const organization = await house.organization(cost(700))
    await limit(organization, `monthly_limit_microcents = ${cost(600)}, enforcement = 'block_launch'`)
    const instance = await running(organization)
    await live(900)
    expect(await house.find(instance)).toMatchObject({ state: 'terminated', reason: 'insufficient_balance' })
    expect((await house.charged(instance)).seconds).toBe(700)
  })

  test.each(['daily', 'monthly'])(
    'a %s limit under stop_running ends it; its hold counts against the limit',
    async (period) => {
      const organization = await house.organization(1_000n * CENT)
      await limit(organization, `${period}_limit_microcents = ${cost(1_500)}, enforcement = 'stop_running'`)
      const instance = await running(organization)
      expect(await house.refusal(organization, { gpuCount: 2 })).toMatchObject({ code: 'quota_exceeded' })
      await live(1_700)
      expect(await house.find(instance)).toMatchObject({ state: 'terminated', reason: 'spending_limit' })
      expect(await house.charged(instance)).toMatchObject({ microcents: cost(1_500), seconds: 1_500 })
      expect(await house.disagreements()).toEqual([])
    },
  )

  test('a limit under block_launch refuses new ones and lets this one run past it', async () => {
    const organization = await house.organization(1_000n * CENT)
    await limit(organization, `monthly_limit_microcents = ${cost(650)}, enforcement = 'block_launch'`)
    const instance = await running(organization)
    await live(900)
    expect(await house.find(instance)).toMatchObject({ state: 'running' })
    expect(await house.refusal(organization)).toMatchObject({ code: 'quota_exceeded' })
    await house.delete(instance)
    expect(await house.charged(instance)).toMatchObject({ microcents: cost(900) })
  })
})

test.each(['daily', 'monthly'])(
  'of a %s limit, a process whose date is false has no more than others',
  async (period) => {
    const organization = await house.organization(1_000n * CENT)
    await limit(organization, `${period}_limit_microcents = ${cost(1_000)}, enforcement = 'stop_running'`)
    const instance = await running(organization)
    await live(500)
    await house.delete(instance)
    const { id } = instance
    const hold = { id, organizationId: organization, microcents: cost(600) }
    for (const nowMs of [clock.now(), clock.now() + 40 * DAY_MS]) {
      const place = house.database.transaction((tx) => placeInstanceHold(tx, hold, GPU_HOUR_MICROCENTS, nowMs))
      expect(await place).toBe(false)
    }
  },
)

test('ends so many hours after its creation as the organization has set, to the second', async () => {
  const organization = await house.organization(1_000n * CENT)
  await limit(organization, 'auto_terminate_hours = 1')
  const instance = await running(organization)
  await live(3_660, 30)
  expect(await house.find(instance)).toMatchObject({ state: 'terminated', reason: 'auto_terminate' })
  expect(await house.charged(instance)).toMatchObject({ microcents: cost(3_600), seconds: 3_600 })
})

test('is charged at the price of its creation, whatever the settings say later', async () => {
  const organization = await house.organization(1_000n * CENT)
  const instance = await running(organization)
  const dearer = house.process()
  const [gpu] = dearer.settings.gpuTypes
  if (gpu === undefined) throw new Error('no GPU')
  const settings = { ...dearer.settings, gpuTypes: [{ ...gpu, gpuHourMicrocents: 9n * GPU_HOUR_MICROCENTS }] }
  for (let minute = 0; minute < 5; minute += 1) {
    await clock.turn(MINUTE_MS)
    await house.work({ ...dearer, settings })
  }
  await house.delete(instance)
  expect(await house.charged(instance)).toMatchObject({ microcents: cost(300), seconds: 300 })
})

test('what no process was there to hold for is free, and it goes on', async () => {
  const organization = await house.organization(1_000n * CENT)
  const instance = await running(organization)
  await clock.turn(45 * MINUTE_MS)
  await house.work()
  expect(await house.find(instance)).toMatchObject({ state: 'running' })
  expect(await house.charged(instance)).toMatchObject({ microcents: cost(600), seconds: 600 })
  await live(120)
  await house.delete(instance)
  expect((await house.charged(instance)).seconds).toBe(720)
  expect(await house.disagreements()).toEqual([])
})

describe('a new account', () => {
  const newSinceMs = clock.now()

  test('may have a burn and charges of $20 an hour together: charges of instances do not count beside it', async () => {
    const organization = await house.organization(20_000n * CENT, { newSinceMs })
    // 4 GPUs at $1.23 each: four such instances are under $20 an hour, a fifth is not.
    const instances: Instance[] = []
    for (let made = 0; made < 4; made += 1) instances.push(await running(organization, 4))
    expect(await house.refusal(organization, { gpuCount: 4 })).toMatchObject({ code: 'quota_exceeded' })
    await live(1_800, 60)
    const figures = await readFigures(house.database, organization, clock.now())
    expect(figures).toMatchObject({ hourSpentMicrocents: 0n, burnMicrocents: 16n * GPU_HOUR_MICROCENTS })
    for (const instance of instances) expect((await house.find(instance)).state).toBe('running')
    for (const instance of instances) await house.delete(instance)
    expect(await house.refusal(organization, { gpuCount: 4 })).toBeNull()
    expect(await house.disagreements()).toEqual([])
  })
})

test('a free instance is held and charged nothing, and its seconds count', async () => {
  const organization = await house.organization(0n)
  const instance = await house.create(organization, {
    ...{ gpuType: 'free', app: 'tool', diskGb: 0 },
    expectedPricePerHourCents: 0,
  })
  await house.work()
  await live(130)
  await house.delete(instance)
  expect(await house.charged(instance)).toMatchObject({ microcents: 0n, seconds: 130 })
  expect(await house.disagreements()).toEqual([])
})
