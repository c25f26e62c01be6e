/** Covered calls that are under way count by the most that they can come to, beyond sixteen at once. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { admitCall } from '../../../test/admitCall.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { type House, openHouse, openTill, type Till } from '../../../test/moneyHouse.ts'
import { settleCall } from '../../../test/settleCall.ts'
import type { Plan } from '../../catalog/plan.ts'
import { DAY_MS, HOUR_MS } from '../../lib/time.ts'
import type { Admitted } from '../admission/admit.ts'
import { setSubscription } from './setSubscription.ts'

const START_MS = Date.UTC(2030, 0, 15, 12, 20)
const PLAN: Plan = {
  key: 'starter',
  name: 'Starter',
  graceMs: HOUR_MS,
  quota: { inputTokens: 100, outputTokens: 100, weeklyTokens: 1_000, backstopMicrocents: 0n },
}
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

const openPlanTill = (): Till => openTill(house.database, 0, clock, () => {}, 0n, [PLAN])

async function subscriber(microcents = 0n): Promise<string> {
  const organizationId = await house.organization(microcents)
  const period = { periodStartMs: START_MS, periodEndMs: START_MS + 30 * DAY_MS, cancelAtPeriodEnd: false }
  await setSubscription(house.database, organizationId, { planKey: PLAN.key, status: 'active', ...period }, START_MS)
  return organizationId
}

async function ask(till: Till, organizationId: string, promptTokens: number): Promise<Admitted | string> {
  const tokens = { prompt: promptTokens, output: 0 }
  const worst = { wholeMicrocents: 10n, firstStepMicrocents: 10n, tokens }
  const admitted = await admitCall(till, { organizationId, ...CALL }, worst, MODEL)
  return admitted.ok ? admitted.value : admitted.refusal.code
}

/** Charges a call; its cost. */
function end(till: Till, admitted: Admitted, promptTokens: number): Promise<bigint | null> {
  const usage = { promptTokens, cachedPromptTokens: 0, completionTokens: 0 }
  return settleCall(till, admitted, RATE, { usage, estimated: false, target: 'mock/test', outcome: 'completed' })
}

const askMany = async (till: Till, organizationId: string, count: number, promptTokens: number) => {
  const asked = await Promise.all(Array.from({ length: count }, () => ask(till, organizationId, promptTokens)))
  const covered = asked.filter((each) => typeof each !== 'string')
  return { covered, refused: asked.filter((each) => typeof each === 'string') }
}

test('sixteen at once are covered whatever they can come to, also before the meter is known, and no more', async () => {
  const till = openPlanTill()
  const organizationId = await subscriber()
  const { covered, refused } = await askMany(till, organizationId, 50, 1_000)
  expect(covered.length).toBe(16)
  expect(new Set(refused)).toEqual(new Set(['subscription_quota_exhausted']))
  // One that ends makes room for one, whatever it came to.
  const [first, second] = covered
  if (first === undefined || second === undefined) throw new Error('nothing is covered')
  first.hold.release()
  expect((await askMany(till, organizationId, 3, 1_000)).covered.length).toBe(1)
  expect(await end(till, second, 20)).toBe(0n)
  expect((await askMany(till, organizationId, 3, 1_000)).covered.length).toBe(1)
})

test('more are covered where something is left beside all that they can come to', async () => {
  const till = openPlanTill()
  const organizationId = await subscriber()
  // 5 weighted each, of 100.
  const { covered } = await askMany(till, organizationId, 50, 10)
  expect(covered.length).toBe(20)
  for (const each of covered) expect(await end(till, each, 2)).toBe(0n)
  expect((await askMany(till, organizationId, 50, 10)).covered.length).toBe(16)
})

test('further ones are paid for where there is credit, and a look sees nothing of those under way', async () => {
  const till = openPlanTill()
  const organizationId = await subscriber(1_000n)
  const { covered, refused } = await askMany(till, organizationId, 17, 1_000)
  expect(refused).toEqual([])
  const kinds = covered.map(({ admission }) => admission.cover !== undefined)
  expect(kinds.filter(Boolean).length).toBe(16)
  expect(await till.plans.ask(organizationId, MODEL, clock.now())).toMatchObject({ kind: 'covered' })
  for (const each of covered) each.hold.release()
  till.plans.dropIdle()
  expect(till.plans.meters.get(organizationId)?.underWay.count).toBe(0)
})
