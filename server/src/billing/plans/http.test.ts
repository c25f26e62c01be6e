import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../test/acceptance/ask.ts'
import { chat, directed, SETTINGS } from '../../../test/acceptance/catalog.ts'
import type { TestKey } from '../../../test/customer.ts'
import { openGateway } from '../../../test/gateway.ts'
import { systemClock } from '../../infra/clock.ts'
import { DAY_MS, HOUR_MS, toTimestamp } from '../../lib/time.ts'
import { setSubscription } from './setSubscription.ts'
import type { Subscription } from './subscription.ts'

const PATH = '/billing/subscription'
const NOON_MS = Date.UTC(2031, 4, 10, 12)
/** Goes on as the wall's, on other days: what watches over connections must not see time jump. */
const aheadMs = NOON_MS - systemClock.now()
const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS, clock })
})
afterAll(() => gateway.close())

const get = (key: TestKey) => gateway.ask({ path: PATH, key })
const subscribe = (key: TestKey, more: Partial<Subscription> = {}) =>
  setSubscription(
    gateway.database,
    key.organizationId,
    {
      planKey: 'small',
      status: 'active',
      periodStartMs: NOON_MS - HOUR_MS,
      periodEndMs: NOON_MS + 30 * DAY_MS,
      cancelAtPeriodEnd: false,
      ...more,
    },
    clock.now(),
  )

/** A call of so many tokens, on a model that plans cover; of the prompt 9 at least are believed (C4). */
const call = (key: TestKey, prompt: number, completion: number, more: Record<string, unknown> = {}) =>
  gateway.ask({
    path: '/chat/completions',
    key,
    body: directed(`prompt_tokens=${prompt} tokens=${completion}`, {
      model: 'svc/covered',
      max_tokens: completion,
      ...more,
    }),
  })

const costOf = (answer: { headers: Headers }) => answer.headers.get('Svc-Cost-Microcents')

const FREE = {
  subscribed: false,
  status: 'none',
  cancel_at_period_end: false,
  plan: { key: 'small', name: 'Small' },
  quota: {
    input_tokens_monthly: 100,
    output_tokens_monthly: 100,
    weekly_tokens: 150,
    max_usage_micro_cents: 0,
    payg_discount_bp: 0,
  },
}

describe('what is shown', () => {
  test('an organization that never subscribed sees the first plan, and the quota that it would give', async () => {
    expect((await get(await gateway.customer())).json).toEqual(FREE)
  })

  test('a plan that can not be bought is not the one that is shown, where another one can', async () => {
    const quota = 'input_tokens_monthly: 100, output_tokens_monthly: 100, weekly_tokens: 150'
    const settings = `
public_url: https://tollgate.test
payments: { provider: local }
plans:
  - { key: free, name: Free, ${quota} }
  - { key: starter, name: Starter, ${quota}, payment_price: local_2000_month }
  - { key: large, name: Large, ${quota}, payment_price: local_5000_month }
`
    const sold = await openAskedGateway({ settings, clock })
    const key = await sold.customer({ admin: true })
    const shown = (await sold.ask({ path: PATH, key })).json as { plan: { key: string } }
    const checkout = await sold.ask({ method: 'POST', path: `${PATH}/checkout`, key, body: {} })
    expect(shown.plan.key).toBe('starter')
    expect(checkout.json).toMatchObject({ plan: { key: shown.plan.key } })
    await sold.close()
  })

  test('without any plan in the settings there is none to show', async () => {
    const bare = await openGateway()
    const key = await bare.customer()
    expect(await (await bare.get(key, PATH)).json()).toEqual({
      ...FREE,
      plan: { key: 'none', name: 'No plan' },
      quota: {
        input_tokens_monthly: 0,
        output_tokens_monthly: 0,
        weekly_tokens: 0,
        max_usage_micro_cents: 0,
        payg_discount_bp: 0,
      },
    })
    await bare.close()
  })

  test.each([
    ['active', {}, true],
    ['trialing', { cancelAtPeriodEnd: true }, true],
    ['past_due', {}, false],
    ['canceled', {}, false],
    // In the grace of an hour after the period (P7).
    ['active', { periodEndMs: NOON_MS - 1 }, true],
    ['trialing', { periodEndMs: NOON_MS - 1 }, true],
    ['active', { periodEndMs: NOON_MS - 1, cancelAtPeriodEnd: true }, false],
    ['past_due', { periodEndMs: NOON_MS - 1 }, false],
    ['active', { periodStartMs: NOON_MS - DAY_MS, periodEndMs: NOON_MS - HOUR_MS }, false],
    ['active', { periodStartMs: NOON_MS + DAY_MS }, false],
    ['active', { planKey: 'gone' }, false],
  ])('%s %j', async (status, more, isEntitled) => {
    const key = await gateway.customer()
    await subscribe(key, { status, ...more })
    const shown = (await get(key)).json as Record<string, unknown>
    expect([shown['subscribed'], shown['status'], shown['usage'] !== undefined]).toEqual([
      isEntitled,
      status,
      isEntitled,
    ])
    expect(shown).toHaveProperty('current_period_end')
  })
})

test('a covered call costs the balance nothing, and is metered and counted', async () => {
  const key = await gateway.customer({ cents: 0 })
  await subscribe(key, { planKey: 'large' })
  const answer = await call(key, 10, 7)
  expect([answer.status, costOf(answer)]).toEqual([200, '0'])
  expect((await get(key)).json).toMatchObject({
    subscribed: true,
    usage: {
      period_start: toTimestamp(NOON_MS - HOUR_MS),
      period_end: toTimestamp(NOON_MS + 30 * DAY_MS),
      weighted_input_tokens: 20,
      weighted_output_tokens: 14,
      weekly_weighted_tokens: 34,
      cost_micro_cents: 10 * 100 + 7 * 200,
    },
  })
  expect((await gateway.ask({ path: '/billing/balance', key })).json).toMatchObject({ balance_cents: 0 })
})

test('in the grace after a period calls are covered, and shown as use of the period that ended', async () => {
  const key = await gateway.customer({ cents: 0 })
  const ended = { periodStartMs: NOON_MS - 30 * DAY_MS, periodEndMs: NOON_MS - 1 }
  await subscribe(key, { planKey: 'small', ...ended })
  const preflight = { path: '/inference/preflight?model=svc/covered', key }
  expect((await gateway.ask(preflight)).json).toMatchObject({ verdict: 'ok', reason: 'plan_covered', subscribed: true })
  const answer = await call(key, 50, 7)
  expect([answer.status, costOf(answer)]).toEqual([200, '0'])
  expect((await get(key)).json).toMatchObject({
    subscribed: true,
    status: 'active',
    current_period_end: toTimestamp(NOON_MS - 1),
    usage: {
      period_start: toTimestamp(ended.periodStartMs),
      period_end: toTimestamp(ended.periodEndMs),
      weighted_input_tokens: 100,
      weighted_output_tokens: 14,
    },
  })
  // 100 are all that the plan has.
  const refused = await call(key, 9, 1)
  expect([refused.status, refused.headers.get('Retry-After'), refused.headers.get('x-should-retry')]).toEqual([
    429,
    '60',
    'false',
  ])
  expect(refused.json).toMatchObject({ error: { code: 'subscription_quota_exhausted' } })
  const blocked = { verdict: 'block', reason: 'subscription_quota_exhausted', subscribed: true }
  expect((await gateway.ask(preflight)).json).toMatchObject(blocked)
  // Renewed, it begins a new period at nothing but the week.
  await subscribe(key, { planKey: 'small', periodStartMs: NOON_MS - 1 })
  let again = await call(key, 9, 1)
  for (let tries = 0; again.status === 429 && tries < 2_000; tries += 1) again = await call(key, 9, 1)
  expect([again.status, costOf(again)]).toEqual([200, '0'])
  expect((await get(key)).json).toMatchObject({
    usage: { period_start: toTimestamp(NOON_MS - 1), weighted_input_tokens: 18, weekly_weighted_tokens: 134 },
  })
})

test('chat outside the plan is paid for', async () => {
  const key = await gateway.customer()
  await subscribe(key)
  const answer = await gateway.ask({ path: '/chat/completions', key, body: chat() })
  expect([answer.status, Number(costOf(answer)) > 0]).toEqual([200, true])
})

test('a quota that is used up is paid for while there is credit, and refused without', async () => {
  const rich = await gateway.customer({ cents: 100 })
  const poor = await gateway.customer({ cents: 0 })
  for (const key of [rich, poor]) {
    await subscribe(key)
    expect(costOf(await call(key, 49, 20))).toBe('0')
    // Two tokens are left, and the whole call is covered.
    expect(costOf(await call(key, 9, 20))).toBe('0')
  }
  const paid = await call(rich, 9, 2)
  expect([paid.status, costOf(paid)]).toEqual([200, String(9 * 100 + 2 * 200)])
  const refused = await call(poor, 9, 2)
  expect(refused.status).toBe(429)
  expect(refused.json).toMatchObject({ error: { code: 'subscription_quota_exhausted', type: 'rate_limit_error' } })
  expect(refused.headers.get('x-should-retry')).toBe('false')
  const leftSeconds = (NOON_MS + 30 * DAY_MS - clock.now()) / 1_000
  const wait = Number(refused.headers.get('Retry-After'))
  expect(wait - leftSeconds >= 0 && wait - leftSeconds < 60).toBe(true)
})

test('a running server hears of a change, without looking', async () => {
  // Its time stands still: what it knows never gets old.
  const deaf = await openAskedGateway({ settings: SETTINGS, clock: { ...clock, monotonicMs: () => 0 } })
  const key = await deaf.customer()
  const body = directed('prompt_tokens=1 tokens=1', { model: 'svc/covered', max_tokens: 1 })
  const cost = async () => costOf(await deaf.ask({ path: '/chat/completions', key, body }))
  expect(await cost()).not.toBe('0')
  const period = { periodStartMs: NOON_MS - HOUR_MS, periodEndMs: NOON_MS + DAY_MS, cancelAtPeriodEnd: false }
  const subscription = { planKey: 'large', status: 'active', ...period }
  // It listens once it is connected, and what is told before that is told again.
  for (let tries = 0; tries < 1_000; tries += 1) {
    await setSubscription(deaf.database, key.organizationId, subscription, clock.now())
    if ((await cost()) === '0') break
  }
  expect(await cost()).toBe('0')
  await deaf.close()
})
