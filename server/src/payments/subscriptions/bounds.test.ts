/** Cases in which Stripe refuses a part, the settings change, or too much is asked for. */

import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import type { StripeAnswer } from '../../../test/stripeObjects.ts'
import { CHECKOUT, type PlanPrices, PORTAL, SubscriptionHouse } from '../../../test/subscriptionHouse.ts'
import { DAY_MS, HOUR_MS, SECOND_MS } from '../../lib/time.ts'
import { refreshSubscription } from './refresh.ts'

const house = new SubscriptionHouse()
const { admin, ask, call, checkout, shown, subscribed, sweep, tell } = house
beforeAll(house.open)
afterAll(house.close)
afterEach(() => {
  house.stripe.onRequest = () => undefined
})

test('a surplus subscription is cancelled also where Stripe refuses its refund, which is tried until it is made, once', async () => {
  const key = await admin()
  const first = await checkout(key)
  const second = await checkout(key, { plan_key: 'large' })
  house.stripe.change(first, { status: 'open' })
  house.stripe.pay(first)
  house.aheadMs += 2 * SECOND_MS
  house.stripe.pay(second)
  const [kept, surplus] = [house.stripe.subscriptionOf(first), house.stripe.subscriptionOf(second)]
  const intent = String(house.stripe.find(second)['payment_intent'])
  const refunded = () => house.stripe.all('refund').filter((refund) => refund['payment_intent'] === intent).length
  house.stripe.change(intent, { status: 'processing' })
  expect(await tell('customer.subscription.created', kept)).toBe(200)
  expect(await tell('customer.subscription.created', surplus)).toBe(200)
  expect([kept, surplus].map((id) => house.stripe.find(id)['status'])).toEqual(['active', 'canceled'])
  expect(refunded()).toBe(0)
  // Stripe answers a request that it refused in the same way for a day.
  house.stripe.change(intent, { status: 'succeeded' })
  house.aheadMs += DAY_MS + HOUR_MS
  for (let looks = 0; looks < 3; looks += 1) {
    await sweep()
    expect(refunded()).toBe(1)
    house.aheadMs += HOUR_MS
  }
  const due = await house.gateway.database.query('select due_at from payment_subscriptions where subscription = $1', [
    surplus,
  ])
  expect(due).toEqual([{ due_at: null }] as never)
})

test('a surplus subscription that Stripe does not cancel is refunded, and cancelled later', async () => {
  const key = await admin()
  const kept = await subscribed(key)
  const { customer } = house.stripe.find(kept)
  house.aheadMs += 2 * SECOND_MS
  const other = await admin()
  const surplus = await subscribed(other, { plan_key: 'large' })
  // It is one of the first customer's: the second one's checkout was paid by the wrong person.
  house.stripe.change(surplus, { customer })
  await house.gateway.database.query('delete from payment_subscriptions where subscription = $1', [surplus])
  const cancelSubscription = () => Promise.reject(new Error('away'))
  const before = house.stripe.all('refund').length
  await refreshSubscription(house.dependencies({ cancelSubscription }), surplus)
  expect([house.stripe.find(surplus)['status'], house.stripe.all('refund').length]).toEqual(['active', before + 1])
  house.aheadMs += HOUR_MS
  await sweep()
  expect([house.stripe.find(surplus)['status'], house.stripe.all('refund').length]).toEqual(['canceled', before + 1])
})

test('where the settings give a plan another price, a subscription has the plan and the price that it is paid by', async () => {
  const key = await admin()
  await subscribed(key, { plan_key: 'small' })
  const at = async (paid: PlanPrices, expected: object, status: number) => {
    const other = await house.openGateway(paid, house.gateway)
    try {
      expect(await shown(key, other)).toMatchObject(expected)
      expect((await call(key, other)).status).toBe(status)
    } finally {
      await other.close()
    }
  }
  const price = { amount_cents: 2_000 }
  const { small, large, unknown } = house.prices
  await at({ small: large, large: small }, { subscribed: true, plan: { key: 'large', price } }, 200)
  const gone = { key: `price:${small}`, price }
  await at({ small: unknown, large }, { subscribed: false, status: 'active', plan: gone }, 402)
  expect(await shown(key)).toMatchObject({ subscribed: true, plan: { key: 'small', price } })
})

test('whoever pays at a price that no plan has any more may subscribe anew, and the older one is cancelled and refunded: nothing is paid twice', async () => {
  const key = await admin()
  const older = await subscribed(key, { plan_key: 'small' })
  const { data } = house.stripe.find(older)['items'] as { data: object[] }
  const items = { object: 'list', data: [{ ...data[0], price: house.stripe.find(house.prices.unknown) }] }
  house.stripe.change(older, { items })
  await tell('customer.subscription.updated', older)
  expect(await shown(key)).toMatchObject({ subscribed: false, status: 'active' })
  const before = house.stripe.all('refund').length
  house.aheadMs += 2 * SECOND_MS
  const newer = await subscribed(key, { plan_key: 'large' })
  expect([older, newer].map((id) => house.stripe.find(id)['status'])).toEqual(['canceled', 'active'])
  expect(house.stripe.all('refund').length).toBe(before + 1)
  expect(await shown(key)).toMatchObject({ subscribed: true, plan: { key: 'large' } })
})

test('an organization may open thirty billing portals within an hour, also all at once', async () => {
  const key = await admin()
  await subscribed(key)
  for (let count = 0; count < 22; count += 1) expect((await ask(key, PORTAL)).status).toBe(200)
  const answers = await Promise.all(Array.from({ length: 16 }, () => ask(key, PORTAL)))
  expect(answers.map(({ status }) => status).toSorted()).toEqual([...Array(8).fill(200), ...Array(8).fill(429)])
  expect((await ask(key, PORTAL)).json).toMatchObject({ code: 'rate_limited' })
  const other = await admin()
  await subscribed(other)
  expect((await ask(other, PORTAL)).status).toBe(200)
  house.aheadMs += HOUR_MS
  expect((await ask(key, PORTAL)).status).toBe(200)
})

test('thirty checkouts within an hour are the most, also where all are asked for at once', async () => {
  const key = await admin()
  for (let count = 0; count < 22; count += 1) await checkout(key)
  const answers = await Promise.all(Array.from({ length: 16 }, () => ask(key, CHECKOUT)))
  expect(answers.map(({ status }) => status).toSorted()).toEqual([...Array(8).fill(200), ...Array(8).fill(429)])
})

const REFUSED: StripeAnswer = { status: 400, json: { error: { type: 'invalid_request_error', message: 'not now' } } }

test.each<[meanwhile: string, act: (checkout: string) => StripeAnswer | undefined, status: number, kept: string]>([
  ['another request has expired it', (id) => void house.stripe.change(id, { status: 'expired' }), 200, 'expired'],
  ['a person has paid it', (id) => void house.stripe.pay(id), 409, 'complete'],
  ['it is open all the same', () => REFUSED, 503, 'open'],
])('an older checkout whose expiry Stripe refuses is looked at again: %s', async (_meanwhile, act, status, kept) => {
  const key = await admin()
  const older = await checkout(key)
  // As while another request has opened its newer checkout, and has not expired this one yet.
  await house.gateway.database.query('update subscription_checkouts set is_replaced = true where checkout = $1', [
    older,
  ])
  const before = house.stripe.asked.length
  const expiry = `/v1/checkout/sessions/${older}/expire`
  house.stripe.onRequest = ({ path }) => (path === expiry ? act(older) : undefined)
  expect((await ask(key, CHECKOUT)).status).toBe(status)
  expect(house.stripe.asked.slice(before).filter(({ path }) => path === expiry)).toHaveLength(1)
  expect(house.stripe.find(older)['status']).toBe(kept)
})
