/** Every modality, on a real database, whether or not an endpoint calls it yet. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { type House, openHouse, openTill } from '../../../test/moneyHouse.ts'
import { SILENCE } from '../../../test/silence.ts'
import { setLimit } from '../../billing/admission/accounts/limit.ts'
import { setSubscription } from '../../billing/plans/setSubscription.ts'
import { sandboxOffer } from '../../catalog/builtin.ts'
import { createCatalog, type Modality, type ResolvedModel, tierOf } from '../../catalog/model.ts'
import type { Plan } from '../../catalog/plan.ts'
import type { PriceTable } from '../../catalog/price.ts'
import { DEFAULT_DEADLINES } from '../../catalog/provider.ts'
import { DAY_MS } from '../../lib/time.ts'
import { judgeCall } from './ask.ts'

const NOW_MS = Date.UTC(2030, 0, 15, 12)
const clock = new TurnedClock(NOW_MS)
const QUOTA = { inputTokens: 10, outputTokens: 10, weeklyTokens: 10 }
const PLANS: readonly Plan[] = [
  { key: 'tokens', name: 'Tokens', graceMs: 0, quota: { ...QUOTA, backstopMicrocents: 0n } },
  { key: 'all', name: 'All', graceMs: 0, quota: { ...QUOTA, backstopMicrocents: 10n } },
]

const PRICES: Readonly<Record<Modality, PriceTable>> = {
  chat: { kind: 'tokens', inputMicrocents: 1n, outputMicrocents: 0n, cachedInputMicrocents: null },
  // Each call costs a cent at least, whatever the rate.
  embedding: { kind: 'tokens', inputMicrocents: 0n, outputMicrocents: 0n, cachedInputMicrocents: null },
  image: { kind: 'image', perImageMicrocents: 1n },
  video: { kind: 'video_second', perSecondMicrocents: 1n, perVideoMicrocents: null },
}

let house: House
let judgeAll: (organizationId: string) => Promise<Record<string, string>>
beforeAll(async () => {
  house = await openHouse(clock)
  const [sandbox] = sandboxOffer('acme').models
  if (sandbox === undefined) throw new Error('the sandbox offers nothing')
  const catalog = createCatalog([sandbox], [], DEFAULT_DEADLINES, PLANS)
  const { database } = house
  judgeAll = async (organizationId) => {
    // A process of its own: it knows nothing from before.
    const money = openTill(database, 0, clock, () => {}, 0n, PLANS)
    const verdicts: Record<string, string> = {}
    for (const modality of ['chat', 'embedding', 'image', 'video'] as const) {
      const model = { ...sandbox, modality, planCovered: true }
      const resolved: ResolvedModel = { model, tier: tierOf('serverless', PRICES[modality], []) }
      const dependencies = { database, clock, log: SILENCE, money, catalog: () => catalog }
      const { verdict, reason } = await judgeCall(dependencies, organizationId, resolved)
      verdicts[modality] = `${verdict} ${reason ?? ''}`.trim()
    }
    return verdicts
  }
}, 60_000)
afterAll(() => house.drop())

async function customer(microcents: bigint, planKey: string | null, isLimited = false): Promise<string> {
  const organizationId = await house.organization(microcents)
  const period = { periodStartMs: NOW_MS, periodEndMs: NOW_MS + DAY_MS }
  if (planKey !== null) {
    const active = { planKey, status: 'active', cancelAtPeriodEnd: false, ...period }
    await setSubscription(house.database, organizationId, active, NOW_MS)
  }
  if (isLimited) {
    await setLimit(house.database, organizationId, {
      monthlyMicrocents: 1n,
      dailyMicrocents: undefined,
      enforcement: undefined,
      autoTerminateHours: undefined,
    })
    await house.database.query(
      `update accounts set month = '2030-01-01', month_spent_microcents = 1 where organization_id = $1::uuid`,
      [organizationId],
    )
  }
  return organizationId
}

const all = (said: string) => ({ chat: said, embedding: said, image: said, video: said })

test.each([
  [5n, null, false, { ...all('ok payg'), video: 'ok' }],
  [0n, null, false, all('block insufficient_balance')],
  [5n, null, true, { ...all('block monthly_limit_reached'), video: 'ok' }],
  [5n, 'all', false, { ...all('ok plan_covered'), video: 'warn not_plan_covered' }],
  [0n, 'all', true, { ...all('ok plan_covered'), video: 'block insufficient_balance' }],
  [
    5n,
    'tokens',
    true,
    { ...all('ok plan_covered'), image: 'block monthly_limit_reached', video: 'warn not_plan_covered' },
  ],
  [
    0n,
    'tokens',
    false,
    { ...all('ok plan_covered'), image: 'block insufficient_balance', video: 'block insufficient_balance' },
  ],
])('%p of balance, plan %p, month reached: %p', async (balance, planKey, isLimited, said) => {
  expect(await judgeAll(await customer(balance, planKey, isLimited))).toEqual(said)
})
