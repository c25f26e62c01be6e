/** Subscriptions through the whole gateway with Stripe's official package, against a server that stands in for Stripe. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import type { TestKey } from '../../../test/customer.ts'
import { signStripe } from '../../../test/stripeServer.ts'
import { CHECKOUT, PORTAL, SubscriptionHouse } from '../../../test/subscriptionHouse.ts'
import { until } from '../../../test/until.ts'
import { setSubscription } from '../../billing/plans/setSubscription.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../lib/time.ts'

const house = new SubscriptionHouse()
const { admin, ask, call, checkout, clock, deliver, shown, subscribed, sweep, tell, verdict } = house
beforeAll(house.open)
afterAll(house.close)
beforeEach(() => {
  house.stripe.failures = 0
})

test('checkout, paid, entitled, covered calls counted, cancelled in the portal, period over: each step as Stripe says', async () => {
  const key = await admin({ standing: 'new' })
  expect((await call(key)).status).toBe(402)
  const { status, json } = await ask(key, CHECKOUT, { plan_key: 'small', success_url: 'https://shop.example/' })
  expect(status).toBe(200)
  const price = { amount_cents: 2_000, currency: 'usd', interval: 'month', interval_count: 1 }
  expect(json['plan']).toEqual({ key: 'small', name: 'Small', price } as never)
  expect(await shown(key)).toMatchObject({ subscribed: false, status: 'none', plan: { key: 'small' } })
  const session = String(json['session_id'])
  house.stripe.pay(session)
  expect(await shown(key)).toMatchObject({ subscribed: false })
  expect(await tell('checkout.session.completed', session)).toBe(200)
  const subscription = house.stripe.subscriptionOf(session)
  expect(await shown(key)).toMatchObject({ subscribed: true, status: 'active', plan: { key: 'small', price } })
  expect(await verdictOnce(key, 'plan_covered')).toMatchObject({ verdict: 'ok', subscribed: true })
  expect((await call(key)).status).toBe(200)
  expect(await shown(key)).toMatchObject({
    usage: { weighted_output_tokens: 5, weekly_weighted_tokens: expect.anything() },
  })
  // A payment for a subscription is no credit, and a first payment.
  const [account] = await house.gateway.database.query<{ balance: bigint; new_until: Date | null }>(
    'select balance_microcents as balance, new_until from accounts where organization_id = $1',
    [key.organizationId],
  )
  expect(account).toEqual({ balance: 0n, new_until: null })
  expect((await ask(key, CHECKOUT)).json).toMatchObject({ code: 'subscription-exists' })

  const portal = await ask(key, PORTAL, { return_url: 'https://shop.example/back' })
  expect(portal.json).toEqual({ portal_url: expect.stringContaining('https://billing.stripe.test/p/bps_') } as never)
  house.stripe.change(subscription, { cancel_at_period_end: true })
  expect(await tell('customer.subscription.updated', subscription)).toBe(200)
  expect(await shown(key)).toMatchObject({ subscribed: true, cancel_at_period_end: true })
  expect((await call(key)).status).toBe(200)
  house.aheadMs += 30 * DAY_MS + SECOND_MS
  expect(await shown(key)).toMatchObject({ subscribed: false })
  await verdictOnce(key, 'insufficient_balance')
  expect((await call(key)).status).toBe(402)
})

interface Step {
  readonly name: string
  /** Makes the step happen at Stripe. */
  readonly happens: (subscription: string) => void
  /** The plan that covers calls then; null: none does. */
  readonly plan: string | null
}

const period = (subscription: string, from: number, until: number) => {
  const { data } = house.stripe.find(subscription)['items'] as { data: object[] }
  const [start, end] = [from, until].map((ms) => Math.floor(ms / 1_000))
  const items = [{ ...data[0], current_period_start: start, current_period_end: end }]
  house.stripe.change(subscription, { items: { object: 'list', data: items } })
}
const priced = (subscription: string, price: string) => {
  const { data } = house.stripe.find(subscription)['items'] as { data: object[] }
  house.stripe.change(subscription, {
    items: { object: 'list', data: [{ ...data[0], price: house.stripe.find(price) }] },
  })
}
const endOf = (subscription: string) => {
  const { data } = house.stripe.find(subscription)['items'] as { data: { current_period_end: number }[] }
  return (data[0]?.current_period_end ?? 0) * 1_000
}
const turnTo = (ms: number) => {
  house.aheadMs += ms - clock.now()
}

/** A change reaches every process by a notification: asks until it is there. */
async function verdictOnce(key: TestKey, reason: string) {
  let said = await verdict(key)
  await until(async () => {
    said = await verdict(key)
    return said['reason'] === reason
  })
  return said
}

/** The life of a subscription. Every step is at least an hour after the one before, so that a sweep sees it. */
const STEPS: readonly Step[] = [
  { name: 'begun', happens: () => {}, plan: 'small' },
  { name: 'another plan', happens: (id) => priced(id, house.prices.large), plan: 'large' },
  { name: 'a price of no plan', happens: (id) => priced(id, house.prices.unknown), plan: null },
  { name: 'the first plan again', happens: (id) => priced(id, house.prices.small), plan: 'small' },
  { name: 'not paid', happens: (id) => house.stripe.change(id, { status: 'past_due' }), plan: null },
  { name: 'paid', happens: (id) => house.stripe.change(id, { status: 'active' }), plan: 'small' },
  { name: 'in the grace', happens: (id) => turnTo(endOf(id) + 10 * MINUTE_MS), plan: 'small' },
  { name: 'past the grace', happens: (id) => turnTo(endOf(id) + 2 * HOUR_MS), plan: null },
  { name: 'renewed', happens: (id) => period(id, endOf(id), endOf(id) + 30 * DAY_MS), plan: 'small' },
  {
    name: 'cancelled in the portal',
    happens: (id) => house.stripe.change(id, { cancel_at_period_end: true }),
    plan: 'small',
  },
  { name: 'just before its end', happens: (id) => turnTo(endOf(id) - 10 * MINUTE_MS), plan: 'small' },
  { name: 'at its end', happens: (id) => turnTo(endOf(id) + SECOND_MS), plan: null },
  { name: 'ended', happens: (id) => house.stripe.change(id, { status: 'canceled' }), plan: null },
]

const EVENTS = ['customer.subscription.deleted', 'customer.subscription.updated', 'customer.subscription.created']

/** How Stripe tells of a step; `older` are the callbacks of the steps before. */
const WAYS: Readonly<Record<string, (id: string, older: string[]) => Promise<void>>> = {
  'told of once': async (id) => void (await tell('customer.subscription.updated', id)),
  'told of five times at once': async (id) => {
    const statuses = await Promise.all(Array.from({ length: 5 }, () => tell('customer.subscription.updated', id)))
    for (const status of statuses) expect([200, 503]).toContain(status)
    if (statuses.includes(503)) await tell('customer.subscription.updated', id)
  },
  'told of in the wrong order, all the older callbacks again': async (id, older) => {
    for (const type of EVENTS) await tell(type, id)
    for (const body of older) await deliver(body, signStripe(body, clock.now()))
    older.push(house.stripe.event('customer.subscription.updated', id, clock.now()).body)
  },
  'never told of': async () => {
    house.aheadMs += MINUTE_MS
    await sweep()
  },
}

test.each(Object.entries(WAYS))('%s: at each step status, preflight and calls say the same', async (_, tells) => {
  const key = await admin()
  const session = await checkout(key, { plan_key: 'small' })
  house.stripe.pay(session)
  const subscription = house.stripe.subscriptionOf(session)
  const older: string[] = []
  for (const { name, happens, plan } of STEPS) {
    if (name !== 'in the grace' && name !== 'at its end') house.aheadMs += HOUR_MS
    happens(subscription)
    await tells(subscription, older)
    const isSubscribed = plan !== null
    const reason = isSubscribed ? 'plan_covered' : 'insufficient_balance'
    const said = await verdictOnce(key, reason)
    const { status } = await call(key)
    const { subscribed, plan: current } = (await shown(key)) as { subscribed: boolean; plan: { key: string } | null }
    const seen = { name, subscribed, covers: status, said: said['reason'], plan: subscribed ? current?.key : null }
    expect(seen).toEqual({ name, subscribed: isSubscribed, covers: isSubscribed ? 200 : 402, said: reason, plan })
    if (name === 'paid') {
      expect(await shown(key)).toMatchObject({ usage: { weighted_output_tokens: 20 } })
    }
  }
  const charges = await house.gateway.database.query('select 1 from charges where organization_id = $1', [
    key.organizationId,
  ])
  expect(charges).toHaveLength(STEPS.filter(({ plan }) => plan !== null).length)
})

test('a clock that is turned back and forth says the same in preflight and in calls, and loses nothing', async () => {
  const key = await admin()
  const subscription = await subscribed(key)
  const agree = async (isCovered: boolean) => {
    const said = await verdictOnce(key, isCovered ? 'plan_covered' : 'insufficient_balance')
    const { status } = await call(key)
    expect([said['verdict'], status]).toEqual(isCovered ? ['ok', 200] : ['block', 402])
  }
  const start = clock.now()
  // Before its period began, nothing is covered.
  for (const [turnMs, isCovered] of [
    [-HOUR_MS, false],
    [2 * HOUR_MS, true],
    [-2 * DAY_MS, false],
    [3 * DAY_MS, true],
  ] as const) {
    house.aheadMs += turnMs
    await tell('customer.subscription.updated', subscription)
    await agree(isCovered)
  }
  turnTo(start + HOUR_MS)
  await tell('customer.subscription.updated', subscription)
  await agree(true)
  expect(await shown(key)).toMatchObject({ subscribed: true, status: 'active' })
})

test('a renewal that comes late is within the grace; one that fails entitles no more', async () => {
  const key = await admin()
  const subscription = await subscribed(key)
  house.aheadMs += 30 * DAY_MS + 10 * MINUTE_MS
  expect(await shown(key)).toMatchObject({ subscribed: true, status: 'active' })
  house.aheadMs += HOUR_MS
  expect(await shown(key)).toMatchObject({ subscribed: false })
  house.stripe.change(subscription, { status: 'past_due' })
  expect(await tell('customer.subscription.updated', subscription)).toBe(200)
  expect(await shown(key)).toMatchObject({ subscribed: false, status: 'past_due' })
})

test('a change of plan keeps the meter, and a price of no plan does not entitle (B10)', async () => {
  const key = await admin()
  const subscription = await subscribed(key, { plan_key: 'small' })
  await verdictOnce(key, 'plan_covered')
  await call(key)
  const items = (id: string) => {
    const { data } = house.stripe.find(subscription)['items'] as { data: object[] }
    return { object: 'list', data: [{ ...data[0], price: house.stripe.find(id) }] }
  }
  house.stripe.change(subscription, { items: items(house.prices.large) })
  await tell('customer.subscription.updated', subscription)
  expect(await shown(key)).toMatchObject({ plan: { key: 'large' }, usage: { weighted_output_tokens: 5 } })
  house.stripe.change(subscription, { items: items(house.prices.unknown) })
  await tell('customer.subscription.updated', subscription)
  expect(await shown(key)).toMatchObject({ subscribed: false, status: 'active', quota: { weekly_tokens: 0 } })
  await verdictOnce(key, 'insufficient_balance')
  expect((await call(key)).status).toBe(402)
})

test('of two checkouts that are paid all the same, one subscription stays; the other is cancelled and refunded (B9)', async () => {
  const key = await admin()
  const first = await checkout(key)
  // Opened by another way, since a newer checkout expires the older one.
  const second = await checkout(key, { plan_key: 'large' })
  expect(house.stripe.find(first)['status']).toBe('expired')
  house.stripe.change(first, { status: 'open' })
  house.stripe.pay(first)
  house.aheadMs += 2 * SECOND_MS
  house.stripe.pay(second)
  const [kept, surplus] = [house.stripe.subscriptionOf(first), house.stripe.subscriptionOf(second)]
  // Told in the wrong order, and twice.
  for (const id of [surplus, kept, surplus, kept]) expect(await tell('customer.subscription.created', id)).toBe(200)
  expect([kept, surplus].map((id) => house.stripe.find(id)['status'])).toEqual(['active', 'canceled'])
  const refunds = house.stripe.all('refund').map((refund) => refund['payment_intent'])
  expect(refunds).toEqual([house.stripe.find(second)['payment_intent']])
  expect(await shown(key)).toMatchObject({ plan: { key: 'small' } })
  expect(await shown(key)).toMatchObject({ subscribed: true })
})

test('without a callback a paid checkout is found before another is opened, and by the sweep', async () => {
  const key = await admin()
  house.stripe.pay(await checkout(key))
  expect((await ask(key, CHECKOUT)).json).toMatchObject({ code: 'subscription-exists' })
  expect(await shown(key)).toMatchObject({ subscribed: true })
  const other = await admin()
  house.stripe.pay(await checkout(other))
  house.aheadMs += 2 * MINUTE_MS
  await sweep()
  expect(await shown(other)).toMatchObject({ subscribed: true })
})

test('a subscription is retrieved when its period ends, although no callback comes', async () => {
  const key = await admin()
  const subscription = await subscribed(key)
  house.aheadMs += 30 * DAY_MS + 2 * MINUTE_MS
  house.stripe.change(subscription, { status: 'canceled' })
  expect(await shown(key)).toMatchObject({ subscribed: true, status: 'active' })
  await sweep()
  expect(await shown(key)).toMatchObject({ subscribed: false, status: 'canceled' })
})

test('a late callback about a subscription that has ended does not undo what the operator has set since', async () => {
  const key = await admin()
  const subscription = await subscribed(key)
  house.stripe.change(subscription, { status: 'canceled' })
  expect(await tell('customer.subscription.deleted', subscription)).toBe(200)
  expect(await shown(key)).toMatchObject({ subscribed: false, status: 'canceled' })
  const byHand = { planKey: 'free', status: 'active', cancelAtPeriodEnd: false }
  const period = { periodStartMs: clock.now() - HOUR_MS, periodEndMs: clock.now() + DAY_MS }
  await setSubscription(house.gateway.database, key.organizationId, { ...byHand, ...period }, clock.now())
  expect(await tell('customer.subscription.updated', subscription)).toBe(200)
  expect(await shown(key)).toMatchObject({ subscribed: true, plan: { key: 'free' } })
})

test('a price is read once a minute; while it can’t be read it is left out of the answer, and nothing else is', async () => {
  const key = await admin()
  await subscribed(key, { plan_key: 'large' })
  const path = `/v1/prices/${house.prices.large}`
  const reads = () => house.stripe.asked.filter((each) => each.path === path).length
  const refusal = { status: 404, json: { error: { type: 'invalid_request_error', code: 'resource_missing' } } }
  house.stripe.onRequest = (asked) => (asked.path === path ? refusal : undefined)
  house.aheadMs += MINUTE_MS
  let before = reads()
  const plan = async () => (await shown(key))['plan']
  expect(await shown(key)).toMatchObject({ subscribed: true, status: 'active' })
  expect(await plan()).toEqual({ key: 'large', name: 'Large' })
  const { status, json } = await ask(await admin(), CHECKOUT, { plan_key: 'large' })
  expect([status, json['plan']]).toEqual([200, { key: 'large', name: 'Large' } as never])
  expect(reads()).toBe(before + 1)
  house.stripe.onRequest = () => undefined
  house.aheadMs += 30 * SECOND_MS
  expect([await plan(), reads()]).toEqual([{ key: 'large', name: 'Large' }, before + 1])
  house.aheadMs += 30 * SECOND_MS
  before = reads()
  const price = { amount_cents: 5_000, currency: 'usd', interval: 'month', interval_count: 1 }
  for (let times = 0; times < 3; times += 1) expect(await plan()).toEqual({ key: 'large', name: 'Large', price })
  expect(reads()).toBe(before + 1)
  house.aheadMs += MINUTE_MS
  expect([await plan(), reads()]).toEqual([{ key: 'large', name: 'Large', price }, before + 2])
})

test('a checkout that Stripe can’t open is 503 and changes nothing', async () => {
  const key = await admin()
  house.aheadMs += HOUR_MS
  // The sweep of the gateway has its share of the failures.
  house.stripe.failures = 1_000
  const { status, json } = await ask(key, CHECKOUT, { plan_key: 'large' })
  house.stripe.failures = 0
  expect({ status, json }).toMatchObject({ status: 503, json: { code: 'payment-source-unavailable' } })
  expect(await shown(key)).toMatchObject({ subscribed: false, status: 'none' })
})

test.each([
  [CHECKOUT, { plan_key: 'none' }, 400, 'validation-error'],
  [CHECKOUT, { plan_key: 'free' }, 503, 'payment-source-unavailable'],
  [CHECKOUT, { success_url: 'http://shop.example/' }, 422, 'validation_failed'],
  [CHECKOUT, { price: 1 }, 422, 'validation_failed'],
  [PORTAL, {}, 404, 'not_found'],
  [PORTAL, { return_url: 'javascript:alert(1)' }, 422, 'validation_failed'],
])('%s %j is %i %s', async (path, body, status, code) => {
  const answer = await ask(await admin(), path, body)
  expect(answer).toMatchObject({ status, json: { code } })
})

test('an empty body is valid, and only an admin’s key may', async () => {
  const key = await admin()
  expect((await house.gateway.ask({ method: 'POST', path: CHECKOUT, key })).status).toBe(200)
  const member = await house.gateway.customer()
  for (const path of [CHECKOUT, PORTAL])
    expect((await ask(member, path)).json).toMatchObject({ code: 'insufficient_scope' })
})

test('the same Idempotency-Key gives the same checkout', async () => {
  const key = await admin()
  const headers = { 'Idempotency-Key': crypto.randomUUID() }
  const send = () => house.gateway.ask({ method: 'POST', path: CHECKOUT, key, body: {}, headers })
  expect((await send()).text).toBe((await send()).text)
})
