/** Callbacks and requests of customers while Stripe does not have an object, or answers in ways that it should not. */

import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { signStripe } from '../../../test/stripeServer.ts'
import { CHECKOUT, SubscriptionHouse } from '../../../test/subscriptionHouse.ts'

const house = new SubscriptionHouse()
const { admin, ask, deliver, subscribed, tell } = house
beforeAll(house.open)
afterAll(house.close)
afterEach(() => {
  house.stripe.onRequest = () => undefined
})

/** Sends a signed callback about an object; returns the status of the answer. */
function tellOf(object: string, id: string): Promise<number> {
  const body = JSON.stringify({
    id: `evt_${crypto.randomUUID()}`,
    object: 'event',
    type: 'x',
    data: { object: { id, object } },
  })
  return deliver(body, signStripe(body, house.clock.now()))
}

test.each([
  ['subscription', 'sub_unknown'],
  ['refund', 're_unknown'],
  ['dispute', 'du_unknown'],
  ['checkout.session', 'cs_unknown'],
])('a callback about a %s that Stripe does not have is answered 200: it is not sent again', async (object, id) => {
  expect(await tellOf(object, id)).toBe(200)
})

test('a callback about an object that Stripe can not give now is answered 503, and comes again', async () => {
  house.stripe.onRequest = () => ({ status: 500, json: { error: { type: 'api_error', message: 'no' } } })
  expect(await tellOf('refund', 're_unknown')).toBe(503)
})

const topUp = async () => {
  const key = await admin()
  const { json } = await ask(key, '/manage/v1/top-ups', { amount_cents: 2_000 })
  const { checkout_url: url, id } = json as unknown as { checkout_url: string; id: string }
  return { key, id, session: url.split('/').at(-1) ?? '' }
}

test('a callback about a checkout that was paid in euros is answered 503, and nothing is credited', async () => {
  const { key, id, session } = await topUp()
  house.stripe.pay(session)
  house.stripe.change(session, { currency: 'eur' })
  expect(await tell('checkout.session.completed', session)).toBe(503)
  expect((await house.gateway.ask({ path: `/manage/v1/payments/${id}`, key })).json).toMatchObject({ state: 'open' })
})

test('a callback about a subscription without items is answered 200 where it is of other business, and 503 where it is ours', async () => {
  const items = { object: 'list', data: [] }
  const others = house.stripe.make('cus', 'customer', { metadata: {} }).id
  const foreign = house.stripe.beginSubscription(others, house.prices.small)
  house.stripe.change(foreign, { items })
  expect(await tell('customer.subscription.updated', foreign)).toBe(200)
  const ours = await subscribed(await admin())
  house.stripe.change(ours, { items })
  expect(await tell('customer.subscription.updated', ours)).toBe(503)
})

test.each([
  ['a redirect with a body of JSON', { status: 302, json: { id: 'cs_x', url: 'https://x.test' } }],
  ['a checkout without an address', { status: 200, json: { id: 'cs_x' } }],
])('%s is no checkout: the top-up is refused with 503', async (_, answer) => {
  const key = await admin()
  house.stripe.onRequest = ({ path }) => (path === '/v1/checkout/sessions' ? answer : undefined)
  const { status, json } = await ask(key, '/manage/v1/top-ups', { amount_cents: 2_000 })
  expect([status, json]).toMatchObject([503, { code: 'payment-source-unavailable' }])
})

test('a subscription whose shape is not known is answered 503', async () => {
  const ours = await subscribed(await admin())
  house.stripe.onRequest = ({ path }) => (path.endsWith(ours) ? { status: 200, json: { id: ours } } : undefined)
  expect(await tell('customer.subscription.updated', ours)).toBe(503)
})

const GONE = {
  status: 400,
  json: { error: { type: 'invalid_request_error', code: 'resource_missing', message: 'no' } },
}

test.each([
  ['is gone', null],
  ['is not sold any more', { active: false }],
])(
  'a plan whose price %s at Stripe can not be bought at the moment, and the log names the price',
  async (_, change) => {
    const key = await admin()
    const { large } = house.prices
    const before = house.gateway.logs.length
    house.stripe.onRequest = ({ method, path }) => {
      if (method === 'POST' && path === '/v1/checkout/sessions') return GONE
      if (path !== `/v1/prices/${large}`) return undefined
      if (change === null) return { ...GONE, status: 404 }
      return { status: 200, json: { ...house.stripe.find(large), ...change } }
    }
    const asked = { method: 'POST', path: CHECKOUT, key, body: { plan_key: 'large' } } as const
    const refused = await house.gateway.ask(asked)
    expect(refused.status).toBe(503)
    expect(refused.json).toMatchObject({
      detail: expect.stringMatching(/^The plan 'large' can’t be bought at the moment/),
    })
    expect(refused.headers.get('Retry-After')).toBeNull()
    const lines = house.gateway.logs.slice(before).map((line) => JSON.parse(line))
    expect(lines).toContainEqual(expect.objectContaining({ level: 'warn', plan: 'large', price: large }))
  },
)

test('a plan whose price is there is refused as before while Stripe makes no checkout', async () => {
  const key = await admin()
  house.stripe.onRequest = ({ method, path }) =>
    method === 'POST' && path === '/v1/checkout/sessions' ? { ...GONE, status: 500 } : undefined
  const { status, json } = await ask(key, CHECKOUT, { plan_key: 'small' })
  expect([status, json]).toMatchObject([503, { detail: expect.stringMatching(/^The payment provider can’t be asked/) }])
})
