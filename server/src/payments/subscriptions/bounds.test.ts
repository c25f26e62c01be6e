/** Cases in which Stripe refuses a part, the settings change, or too much is asked for. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { CHECKOUT, type PlanPrices, PORTAL, SubscriptionHouse } from '../../../test/subscriptionHouse.ts'
import { DAY_MS, HOUR_MS, SECOND_MS } from '../../lib/time.ts'
import { refreshSubscription } from './refresh.ts'

const house = new SubscriptionHouse()
const { admin, ask, call, checkout, shown, subscribed, sweep, tell } = house
beforeAll(house.open)
afterAll(house.close)

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
