import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
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
import type { Plan } from '../../catalog/plan.ts'
import { type Clock, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../kernel/time.ts'
import { type Admitted, admit } from '../admit.ts'
import { settle } from '../settle.ts'
import type { PlanUsage } from './gate.ts'
import { readPlanState } from './readPlan.ts'
import { setSubscription } from './setSubscription.ts'

const START_MS = Date.UTC(2030, 0, 15, 12, 20)
const PERIOD_END_MS = START_MS + 30 * DAY_MS
const PLANS: readonly Plan[] = [
  {
    key: 'small',
    name: 'Small',
    quota: { inputTokens: 100, outputTokens: 1_000, weeklyTokens: 60, backstopMicrocents: 0n },
  },
  {
    key: 'large',
    name: 'Large',
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

/** What becomes of a call that is let in: covered, paid for, or the refusal's code. */
async function ask(till: Till, organizationId: string): Promise<Admitted | string> {
  const worst = { wholeMicrocents: 10n, firstStepMicrocents: 10n }
  const admitted = await admit(till, { organizationId, ...CALL }, () => worst, MODEL)
  return admitted.ok ? admitted.value : admitted.refusal.code
}

async function end(till: Till, admitted: Admitted, promptTokens: number, completionTokens: number) {
  const usage = { promptTokens, cachedPromptTokens: 0, completionTokens }
  const cost = await settle(till, admitted, RATE, {
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

test('what a process has covered itself counts at once, durable or not, and once', async () => {
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
  expect([asked.hold.microcents, asked.hold.isCovered, asked.hold.tryExtend(10n ** 15n)]).toEqual([0n, true, true])
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

test('what other processes have covered is seen when the figure is a second old, and what a restart left at once', async () => {
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
  till.hearSubscription(organizationId)
  expect(await call(till, organizationId, 2)).toBe('covered')
  await setSubscription(house.database, organizationId, { ...active, status: 'past_due' }, START_MS)
  await clock.turn(SECOND_MS + 1)
  expect(await call(till, organizationId, 2)).toBe('insufficient_balance')
})

test('a period that has ended covers nothing, and the next one begins at nothing but the week', async () => {
  const till = openPlanTill(0)
  const organizationId = await subscriber(0n, 'small', START_MS + DAY_MS)
  expect(await call(till, organizationId, 80)).toBe('covered')
  await clock.turn(DAY_MS)
  expect(await call(till, organizationId, 2)).toBe('insufficient_balance')
  const next = {
    planKey: 'small',
    status: 'active',
    periodStartMs: START_MS + DAY_MS,
    periodEndMs: PERIOD_END_MS,
    cancelAtPeriodEnd: false,
  }
  await setSubscription(house.database, organizationId, next, clock.now())
  till.hearSubscription(organizationId)
  expect(await usageOf(organizationId)).toEqual({
    inputTokens: 0n,
    outputTokens: 0n,
    weeklyTokens: 40n,
    listMicrocents: 0n,
  })
  expect(await call(till, organizationId, 40)).toBe('covered')
  expect(await call(till, organizationId, 2)).toBe('subscription_quota_exhausted')
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
  await till.writer.refill(till.wallet(organizationId), 50n)
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
    // Let in while meters can be read; what is tried again are the posts.
    await Promise.all(
      tills.flatMap((till) =>
        Array.from({ length: 20 }, async () => {
          for (let tries = 0; tries < 50; tries += 1) {
            const asked = await ask(till, organizationId)
            if (typeof asked !== 'string') {
              expect(asked.admission.cover).toBeDefined()
              await end(till, asked, 4, 2)
              return
            }
          }
          throw new Error('never let in')
        }),
      ),
    )
    expect(await total(organizationId)).toEqual({ input: 120n, charges: 60n, slots: 3n })
    expect(await usageOf(organizationId)).toMatchObject({ inputTokens: 120n, outputTokens: 60n, weeklyTokens: 180n })
    expect(await house.imbalances()).toEqual([])
  })

  test('a charge that the database refuses counts nowhere', async () => {
    const till = openPlanTill(0)
    const organizationId = await subscriber()
    const asked = await ask(till, organizationId)
    if (typeof asked === 'string') throw new Error(asked)
    const usage = { promptTokens: 4, cachedPromptTokens: 0, completionTokens: 0 }
    await settle(till, asked, RATE, { usage, estimated: false, target: 'mock\0', outcome: 'completed' })
    expect(till.buried).toHaveLength(1)
    expect((await usageOf(organizationId)).inputTokens).toBe(0n)
    expect(till.wallet(organizationId).plan?.current?.usage.inputTokens).toBe(0n)
    expect(await call(till, organizationId, 4)).toBe('covered')
  })
})

test('where nothing is offered nobody is asked, and no meter is kept', async () => {
  const till = openTill(house.database, 0, clock)
  const organizationId = await subscriber(100n)
  expect(await call(till, organizationId, 9)).toBe('paid 9')
  expect(till.wallet(organizationId).plan).toBeNull()
})
