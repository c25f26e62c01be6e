import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { admitCall } from '../../../test/admitCall.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { seeded } from '../../../test/faults/seeded.ts'
import {
  FastClock,
  type Fault,
  type House,
  openHouse,
  openTill,
  type Till,
  withFaults,
} from '../../../test/moneyHouse.ts'
import { settleCall } from '../../../test/settleCall.ts'
import { until } from '../../../test/until.ts'
import type { Plan } from '../../catalog/plan.ts'
import { type Clock, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, toTimestamp } from '../../lib/time.ts'
import type { Admitted } from '../admission/admit.ts'
import type { PlanUsage } from './cover.ts'
import { readPlanState } from './readPlan.ts'
import { setSubscription } from './setSubscription.ts'

const START_MS = Date.UTC(2030, 0, 15, 12, 20)
const PERIOD_END_MS = START_MS + 30 * DAY_MS
const PLANS: readonly Plan[] = [
  {
    key: 'small',
    name: 'Small',
    graceMs: HOUR_MS,
    quota: { inputTokens: 100, outputTokens: 1_000, weeklyTokens: 60, backstopMicrocents: 0n },
  },
  {
    key: 'large',
    name: 'Large',
    graceMs: HOUR_MS,
    quota: { inputTokens: 100, outputTokens: 100, weeklyTokens: 1_000, backstopMicrocents: 0n },
  },
]
/** A token costs a micro-cent, and counts half a plan token. */
const RATE = { inputMicrocents: 1_000_000n, outputMicrocents: 1_000_000n, cachedInputMicrocents: null }
const MODEL = { modality: 'chat', planCovered: true, usageFactorThousandths: 500 } as const
const CALL = {
  keyId: '00000000-0000-4000-8000-000000000001',
  model: 'svc/test',
  tier: 'serverless',
  priceHash: new Uint8Array(32),
} as const

let house: House
let clock: TurnedClock
beforeAll(async () => {
  house = await openHouse(new TurnedClock(START_MS))
}, 60_000)
beforeEach(() => {
  clock = new TurnedClock(START_MS)
})
afterAll(() => house.drop())

const openPlanTill = (slot: number, database = house.database, itsClock: Clock = clock): Till =>
  openTill(database, slot, itsClock, () => {}, 0n, PLANS)

async function subscriber(microcents = 0n, planKey = 'large', periodEndMs = PERIOD_END_MS): Promise<string> {
  const organizationId = await house.organization(microcents)
  const subscription = { planKey, status: 'active', periodStartMs: START_MS, periodEndMs, cancelAtPeriodEnd: false }
  await setSubscription(house.database, organizationId, subscription, START_MS)
  return organizationId
}

/** Admits a call of `CALL`. Returns it, or the code of the refusal. */
async function ask(till: Till, organizationId: string): Promise<Admitted | string> {
  const worst = { wholeMicrocents: 10n, firstStepMicrocents: 10n }
  const admitted = await admitCall(till, { organizationId, ...CALL }, worst, MODEL)
  return admitted.ok ? admitted.value : admitted.refusal.code
}

async function end(till: Till, admitted: Admitted, promptTokens: number, completionTokens: number) {
  const usage = { promptTokens, cachedPromptTokens: 0, completionTokens }
  const cost = await settleCall(till, admitted, RATE, {
    usage,
    estimated: false,
    target: 'mock/test',
    outcome: 'completed',
  })
  return admitted.admission.cover === undefined ? `paid ${cost}` : cost === 0n ? 'covered' : `covered, and paid ${cost}`
}

async function call(till: Till, organizationId: string, promptTokens: number, completionTokens = 0): Promise<string> {
  const asked = await ask(till, organizationId)
  return typeof asked === 'string' ? asked : end(till, asked, promptTokens, completionTokens)
}

const usageOf = async (organizationId: string): Promise<PlanUsage> =>
  (await readPlanState(house.database, organizationId, clock.now())).usage

test('charges that a process has covered itself count at once, durable or not, and once', async () => {
  const till = openPlanTill(0)
  const organizationId = await subscriber()
  const calls = []
  for (let each = 0; each < 6; each += 1) calls.push(await call(till, organizationId, 60, 3))
  // 30 weighted a call: the fourth begins at 90 of 100 and is covered whole.
  expect(calls).toEqual(['covered', 'covered', 'covered', 'covered', ...Array(2).fill('subscription_quota_exhausted')])
  expect(await usageOf(organizationId)).toEqual({
    inputTokens: 120n,
    // Rounded up a call.
    outputTokens: 8n,
    weeklyTokens: 128n,
    listMicrocents: 4n * 63n,
  })
  await clock.turn(2 * SECOND_MS)
  expect(await call(till, organizationId, 1)).toBe('subscription_quota_exhausted')
})

test('calls that were let in beside each other are covered to their end, and the quota is passed by no more', async () => {
  const till = openPlanTill(0)
  const organizationId = await subscriber()
  const open = await Promise.all([1, 2, 3].map(() => ask(till, organizationId)))
  const ended = open.map((each) => (typeof each === 'string' ? each : end(till, each, 198, 0)))
  expect(await Promise.all(ended)).toEqual(['covered', 'covered', 'covered'])
  expect(await ask(till, organizationId)).toBe('subscription_quota_exhausted')
})

test('a call that is covered holds no money and extends without asking anybody', async () => {
  const till = openPlanTill(0)
  const asked = await ask(till, await subscriber())
  if (typeof asked === 'string') throw new Error(asked)
  expect([asked.hold.microcents, asked.hold.needsNoMoney, asked.hold.tryExtend(10n ** 15n)]).toEqual([0n, true, true])
  asked.hold.release()
  expect(asked.hold.tryExtend(1n)).toBe(false)
})

test('a quota that is used up is paid for while there is credit', async () => {
  const till = openPlanTill(0)
  const organizationId = await subscriber(25n)
  expect(await call(till, organizationId, 200)).toBe('covered')
  expect(await call(till, organizationId, 9)).toBe('paid 9')
  expect(await call(till, organizationId, 9)).toBe('paid 9')
  // 7 are left.
  expect(await call(till, organizationId, 9)).toBe('subscription_quota_exhausted')
  expect((await usageOf(organizationId)).inputTokens).toBe(100n)
})

test('charges that other processes have covered are seen when the figure is a second old, and what a restart left at once', async () => {
  const [one, other] = [openPlanTill(0), openPlanTill(1)]
  const organizationId = await subscriber()
  expect(await call(one, organizationId, 2)).toBe('covered')
  expect(await call(other, organizationId, 220)).toBe('covered')
  expect(await call(one, organizationId, 2)).toBe('covered')
  await clock.turn(SECOND_MS + 1)
  expect(await call(one, organizationId, 2)).toBe('subscription_quota_exhausted')
  for (const slot of [0, 1, 2])
    expect(await call(openPlanTill(slot), organizationId, 2)).toBe('subscription_quota_exhausted')
})

test('a subscription that changes is heard of at once, and seen within a second where it is not', async () => {
  const till = openPlanTill(0)
  const organizationId = await house.organization(0n)
  expect(await call(till, organizationId, 2)).toBe('insufficient_balance')
  const active = {
    planKey: 'large',
    status: 'active',
    periodStartMs: START_MS,
    periodEndMs: PERIOD_END_MS,
    cancelAtPeriodEnd: false,
  }
  await setSubscription(house.database, organizationId, active, START_MS)
  till.plans.hear(organizationId)
  expect(await call(till, organizationId, 2)).toBe('covered')
  await setSubscription(house.database, organizationId, { ...active, status: 'past_due' }, START_MS)
  await clock.turn(SECOND_MS + 1)
  expect(await call(till, organizationId, 2)).toBe('insufficient_balance')
})

test('a period whose grace has ended covers nothing, and the next one begins at nothing but the week', async () => {
  const till = openPlanTill(0)
  const organizationId = await subscriber(0n, 'small', START_MS + DAY_MS)
  expect(await call(till, organizationId, 80)).toBe('covered')
  await clock.turn(DAY_MS + HOUR_MS)
  expect(await call(till, organizationId, 2)).toBe('insufficient_balance')
  const next = {
    planKey: 'small',
    status: 'active',
    periodStartMs: START_MS + DAY_MS,
    periodEndMs: PERIOD_END_MS,
    cancelAtPeriodEnd: false,
  }
  await setSubscription(house.database, organizationId, next, clock.now())
  till.plans.hear(organizationId)
  expect(await usageOf(organizationId)).toEqual({
    inputTokens: 0n,
    outputTokens: 0n,
    weeklyTokens: 40n,
    listMicrocents: 0n,
  })
  expect(await call(till, organizationId, 40)).toBe('covered')
  expect(await call(till, organizationId, 2)).toBe('subscription_quota_exhausted')
})

describe('the grace of an hour after a period (P7)', () => {
  const END_MS = START_MS + DAY_MS
  const renewed = (more: object = {}) => ({
    planKey: 'large',
    status: 'active',
    periodStartMs: END_MS,
    periodEndMs: END_MS + 30 * DAY_MS,
    cancelAtPeriodEnd: false,
    ...more,
  })
  /** Returns the use that the meter of a period has counted, in all processes. */
  const metered = async (organizationId: string, periodStartMs: number) => {
    const rows = await house.database.query<{ input: bigint }>(
      `select coalesce(sum(input_tokens), 0)::bigint as input from plan_periods
       where organization_id = $1::uuid and period_start = $2::timestamptz`,
      [organizationId, toTimestamp(periodStartMs)],
    )
    return rows[0]?.input
  }

  test('its calls are covered, on the meter of the period that ended, in every process', async () => {
    const tills = [openPlanTill(0), openPlanTill(1)]
    const organizationId = await subscriber(0n, 'large', END_MS)
    await clock.turn(DAY_MS)
    for (const till of tills) expect(await call(till, organizationId, 20)).toBe('covered')
    await clock.turn(HOUR_MS - 1)
    for (const till of tills) expect(await call(till, organizationId, 20)).toBe('covered')
    expect(await metered(organizationId, START_MS)).toBe(40n)
    expect((await usageOf(organizationId)).inputTokens).toBe(40n)
  })

  test('ends by itself: no process needs to be told, or to read again, and no call passes it', async () => {
    const tills = [openPlanTill(0), openPlanTill(1)]
    const organizationId = await subscriber(0n, 'large', END_MS)
    await clock.turn(DAY_MS + HOUR_MS - 400)
    for (const till of tills) expect(await call(till, organizationId, 2)).toBe('covered')
    const reads = tills.map((till) => till.plans.meters.get(organizationId)?.readAtMs)
    await clock.turn(399)
    for (const till of tills) expect(await call(till, organizationId, 2)).toBe('covered')
    await clock.turn(1)
    for (const till of tills) expect(await call(till, organizationId, 2)).toBe('insufficient_balance')
    expect(tills.map((till) => till.plans.meters.get(organizationId)?.readAtMs)).toEqual(reads)
  })

  test('is none for who does not renew, and ends with a status that does not entitle', async () => {
    const till = openPlanTill(0)
    const organizationId = await subscriber(0n, 'large', END_MS)
    await clock.turn(DAY_MS)
    const ended = { periodStartMs: START_MS, periodEndMs: END_MS }
    for (const [more, answer] of [
      [{ ...ended, cancelAtPeriodEnd: true }, 'insufficient_balance'],
      [ended, 'covered'],
      [{ ...ended, status: 'past_due' }, 'insufficient_balance'],
      [{ ...ended, status: 'trialing' }, 'covered'],
    ] as const) {
      await setSubscription(house.database, organizationId, renewed(more), clock.now())
      till.plans.hear(organizationId)
      expect(await call(till, organizationId, 2)).toBe(answer)
    }
  })

  test('a quota that is used up in it is worth asking for in a minute, and paid for while there is credit', async () => {
    const till = openPlanTill(0)
    const [poor, rich] = [await subscriber(0n, 'large', END_MS), await subscriber(25n, 'large', END_MS)]
    await clock.turn(DAY_MS + MINUTE_MS)
    for (const organizationId of [poor, rich]) expect(await call(till, organizationId, 200)).toBe('covered')
    expect(await call(till, rich, 9)).toBe('paid 9')
    const worst = { wholeMicrocents: 10n, firstStepMicrocents: 10n }
    const refused = await admitCall(till, { organizationId: poor, ...CALL }, worst, MODEL)
    expect(refused).toMatchObject({ refusal: { code: 'subscription_quota_exhausted', retryAfterSeconds: 60 } })
  })

  test('a renewal begins a new period at nothing, on a meter of its own; who has not heard of it counts on the old one', async () => {
    const [hears, deaf] = [openPlanTill(0), openPlanTill(1)]
    const organizationId = await subscriber(0n, 'large', END_MS)
    await clock.turn(DAY_MS + MINUTE_MS)
    for (const till of [hears, deaf]) expect(await call(till, organizationId, 60)).toBe('covered')
    await setSubscription(house.database, organizationId, renewed(), clock.now())
    hears.plans.hear(organizationId)
    expect(await call(hears, organizationId, 20)).toBe('covered')
    expect(await call(deaf, organizationId, 2)).toBe('covered')
    await clock.turn(SECOND_MS + 1)
    expect(await call(deaf, organizationId, 40)).toBe('covered')
    expect([await metered(organizationId, START_MS), await metered(organizationId, END_MS)]).toEqual([61n, 30n])
    // The week is the same for both.
    expect(await usageOf(organizationId)).toMatchObject({ inputTokens: 30n, weeklyTokens: 91n })
    // Long after the old grace would have ended.
    await clock.turn(HOUR_MS)
    for (const till of [hears, deaf]) expect(await call(till, organizationId, 2)).toBe('covered')
  })

  test('a call of the old period that ends in the new one uses up nothing of the new one', async () => {
    const till = openPlanTill(0)
    const organizationId = await subscriber(0n, 'large', END_MS)
    await clock.turn(DAY_MS + MINUTE_MS)
    const [posted, open] = [await ask(till, organizationId), await ask(till, organizationId)]
    if (typeof posted === 'string' || typeof open === 'string') throw new Error('not let in')
    await setSubscription(house.database, organizationId, renewed(), clock.now())
    till.plans.hear(organizationId)
    expect(await call(till, organizationId, 20)).toBe('covered')
    expect(await end(till, posted, 300, 0)).toBe('covered')
    const meter = till.plans.meters.get(organizationId)
    expect(meter?.current?.usage).toMatchObject({ inputTokens: 10n, weeklyTokens: 160n })
    const ending = end(till, open, 300, 0)
    expect(await call(till, organizationId, 20)).toBe('covered')
    expect(await ending).toBe('covered')
    expect(meter?.current?.usage).toMatchObject({ inputTokens: 20n, weeklyTokens: 320n })
    expect(meter?.current?.usage).toEqual(await usageOf(organizationId))
    expect([await metered(organizationId, START_MS), await metered(organizationId, END_MS)]).toEqual([300n, 20n])
  })
})

test('the week rolls by the hour: a slice counts until all of it is more than 7 days ago', async () => {
  const till = openPlanTill(0)
  const organizationId = await subscriber(0n, 'small')
  expect(await call(till, organizationId, 60)).toBe('covered')
  await clock.turn(3 * HOUR_MS)
  expect(await call(till, organizationId, 60)).toBe('covered')
  expect(await call(till, organizationId, 2)).toBe('subscription_quota_exhausted')
  // The first was at 12:20: its hour ends at 13:00.
  await clock.turn(START_MS + 7 * DAY_MS + 39 * MINUTE_MS - clock.now())
  expect((await usageOf(organizationId)).weeklyTokens).toBe(60n)
  expect(await call(till, organizationId, 2)).toBe('subscription_quota_exhausted')
  await clock.turn(MINUTE_MS)
  expect((await usageOf(organizationId)).weeklyTokens).toBe(30n)
  expect(await call(till, organizationId, 2)).toBe('covered')
  expect((await usageOf(organizationId)).inputTokens).toBe(61n)
})

test('a meter that can not be read counts as pay-as-you-go, and is counted', async () => {
  let fault: Fault = 'none'
  const database = withFaults(house.database, () => fault)
  const till = openPlanTill(0, database)
  const organizationId = await subscriber(100n)
  expect(await call(till, organizationId, 2)).toBe('covered')
  await clock.turn(2 * SECOND_MS)
  await till.writer.renew(till.share(organizationId), 50n)
  fault = 'before'
  const asked = await ask(till, organizationId)
  fault = 'none'
  if (typeof asked === 'string') throw new Error(asked)
  expect(await end(till, asked, 9, 0)).toBe('paid 9')
  expect(till.unreadablePlans).toBe(1)
  expect(await call(till, organizationId, 2)).toBe('covered')
})

describe('meters and charges are one transaction', () => {
  const total = async (organizationId: string) => {
    const rows = await house.database.query<{ input: bigint; charges: bigint; slots: bigint }>(
      `select coalesce(sum(plan_input_tokens), 0)::bigint as input, count(*)::bigint as charges,
         (select count(*) from plan_periods p where p.organization_id = $1::uuid)::bigint as slots
       from charges where organization_id = $1::uuid`,
      [organizationId],
    )
    return rows[0]
  }

  test('of many calls in several processes each counts once, though half of the statements fail on their way', async () => {
    const random = seeded(7)
    const database = withFaults(house.database, () => random.pick(['none', 'none', 'after', 'before'] as const))
    const fast = new FastClock(START_MS, 20)
    const tills = [0, 1, 2].map((slot) => openPlanTill(slot, database, fast))
    const organizationId = await subscriber()
    // All that they come to is within the quota, in whatever order they are let in and charged.
    await Promise.all(
      tills.flatMap((till) =>
        // By so fast a clock a statement of a busy database soon seems stalled, and nobody is let in until it is back.
        Array.from({ length: 16 }, () =>
          until(async () => {
            const asked = await ask(till, organizationId)
            if (typeof asked === 'string') return false
            expect(asked.admission.cover).toBeDefined()
            await end(till, asked, 4, 2)
            return true
          }),
        ),
      ),
    )
    expect(await total(organizationId)).toEqual({ input: 96n, charges: 48n, slots: 3n })
    expect(await usageOf(organizationId)).toMatchObject({ inputTokens: 96n, outputTokens: 48n, weeklyTokens: 144n })
    expect(await house.imbalances()).toEqual([])
  })

  test('a charge that the database refuses counts nowhere', async () => {
    const till = openPlanTill(0)
    const organizationId = await subscriber()
    const asked = await ask(till, organizationId)
    if (typeof asked === 'string') throw new Error(asked)
    const usage = { promptTokens: 4, cachedPromptTokens: 0, completionTokens: 0 }
    await settleCall(till, asked, RATE, { usage, estimated: false, target: 'mock\0', outcome: 'completed' })
    expect(till.dead).toHaveLength(1)
    expect((await usageOf(organizationId)).inputTokens).toBe(0n)
    expect(till.plans.meters.get(organizationId)?.current?.usage.inputTokens).toBe(0n)
    expect(await call(till, organizationId, 4)).toBe('covered')
  })
})

test('where nothing is offered nobody is asked, and no meter is kept', async () => {
  const till = openTill(house.database, 0, clock)
  const organizationId = await subscriber(100n)
  expect(await call(till, organizationId, 9)).toBe('paid 9')
  expect(till.plans.meters.get(organizationId)).toBeUndefined()
})
