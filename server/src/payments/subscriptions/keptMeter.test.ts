/** A change of plan keeps the meter (B10), through the whole gateway, also where Stripe begins another period by it. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { AskedGateway } from '../../../test/acceptance/ask.ts'
import type { TestKey } from '../../../test/customer.ts'
import { SubscriptionHouse } from '../../../test/subscriptionHouse.ts'
import { verifyAll } from '../../billing/ledger/verifyAll.ts'
import { planCheck } from '../../billing/plans/verify.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../lib/time.ts'

const house = new SubscriptionHouse()
const { admin, call, clock, shown, subscribed, tell } = house
/** A process that shares the database. */
let beside: AskedGateway
beforeAll(async () => {
  await house.open()
  beside = await house.openGateway(house.prices, house.gateway)
})
afterAll(async () => {
  await beside.close()
  await house.close()
})

/** The plan's call counts 5 output tokens. */
async function callBoth(key: TestKey): Promise<void> {
  for (const at of [house.gateway, beside]) expect((await call(key, at)).status).toBe(200)
}

/** The weighted output tokens that are used of the period. */
async function used(key: TestKey, at = house.gateway): Promise<unknown> {
  const { usage } = (await shown(key, at)) as { usage?: Record<string, unknown> }
  return usage?.['weighted_output_tokens']
}

const itemOf = (subscription: string) => {
  const { data } = house.stripe.find(subscription)['items'] as { data: { current_period_end: number }[] }
  return data[0] ?? { current_period_end: 0 }
}
const endOf = (subscription: string) => itemOf(subscription).current_period_end * 1_000
const turnTo = (ms: number) => {
  house.aheadMs += ms - clock.now()
}

/** Stripe gives a subscription a price and a period. */
function change(subscription: string, price: string, from: number, days: number): void {
  const start = Math.floor(from / 1_000)
  const period = { current_period_start: start, current_period_end: start + days * 86_400 }
  const item = { ...itemOf(subscription), price: house.stripe.find(price), ...period }
  house.stripe.change(subscription, { items: { object: 'list', data: [item] } })
}

/** Subscribes, and uses 10 tokens in two processes. */
async function user(): Promise<{ readonly key: TestKey; readonly subscription: string }> {
  const key = await admin()
  const subscription = await subscribed(key, { plan_key: 'small' })
  await callBoth(key)
  expect(await used(key)).toBe(10)
  return { key, subscription }
}

const updated = async (subscription: string) =>
  expect(await tell('customer.subscription.updated', subscription)).toBe(200)

async function disagreements(): Promise<string[]> {
  const found: string[] = []
  const { database } = house.gateway
  for await (const each of verifyAll({ database, pause: async () => {}, checks: [planCheck] })) found.push(each.kind)
  return found
}

test('a change to a yearly price within the month keeps the meter until the month is over by the clock', async () => {
  const { key, subscription } = await user()
  const monthEndMs = endOf(subscription)
  house.aheadMs += 10 * DAY_MS
  change(subscription, house.prices.large, clock.now(), 365)
  await updated(subscription)
  expect(await used(key)).toBe(10)
  expect(await shown(key)).toMatchObject({
    plan: { key: 'large' },
    usage: { period_end: expect.stringContaining('T') },
  })
  await callBoth(key)
  expect([await used(key), await used(key, beside)]).toEqual([20, 20])
  turnTo(monthEndMs - MINUTE_MS)
  await updated(subscription)
  await callBoth(key)
  expect(await used(key)).toBe(30)
  turnTo(monthEndMs + SECOND_MS)
  expect(await used(key)).toBe(0)
  await callBoth(key)
  await updated(subscription)
  expect(await used(key)).toBe(10)
  expect(await disagreements()).toEqual([])
})

test('a month, a year and a month again on one day bring no second quota', async () => {
  const { key, subscription } = await user()
  const monthEndMs = endOf(subscription)
  for (const [price, days] of [
    [house.prices.large, 365],
    [house.prices.small, 30],
  ] as const) {
    house.aheadMs += HOUR_MS
    change(subscription, price, clock.now(), days)
    await updated(subscription)
    await callBoth(key)
  }
  expect(await used(key)).toBe(30)
  // The hours between the end of the first month and that of the second are no period of their own.
  turnTo(monthEndMs + HOUR_MS)
  expect(await used(key)).toBe(30)
  turnTo(endOf(subscription) + SECOND_MS)
  change(subscription, house.prices.small, endOf(subscription), 30)
  await updated(subscription)
  expect(await used(key)).toBe(0)
  expect(await disagreements()).toEqual([])
})

test('one that is bought after the first was cancelled at once goes on with its meter', async () => {
  const { key, subscription } = await user()
  const monthEndMs = endOf(subscription)
  house.aheadMs += 20 * DAY_MS
  house.stripe.change(subscription, { status: 'canceled' })
  expect(await tell('customer.subscription.deleted', subscription)).toBe(200)
  await subscribed(key, { plan_key: 'small' })
  expect(await used(key)).toBe(10)
  turnTo(monthEndMs + SECOND_MS)
  expect(await used(key)).toBe(0)
})

test.each([
  ['a minute before it', -MINUTE_MS],
  ['at once', SECOND_MS],
  ['two days late', 2 * DAY_MS],
])('a renewal at the end of the period that is told of %s begins a new meter', async (_, afterEndMs) => {
  const { key, subscription } = await user()
  const monthEndMs = endOf(subscription)
  turnTo(monthEndMs + afterEndMs)
  change(subscription, house.prices.small, monthEndMs, 30)
  await updated(subscription)
  turnTo(monthEndMs + Math.max(afterEndMs, 0) + SECOND_MS)
  expect(await used(key)).toBe(0)
  await callBoth(key)
  expect(await used(key)).toBe(10)
  expect(await disagreements()).toEqual([])
})

test('a change that is told of after the earlier period has ended begins its meter at that end', async () => {
  const { key, subscription } = await user()
  const monthEndMs = endOf(subscription)
  house.aheadMs += 10 * DAY_MS
  change(subscription, house.prices.large, clock.now(), 365)
  turnTo(monthEndMs - MINUTE_MS)
  await callBoth(key)
  turnTo(monthEndMs + HOUR_MS / 2)
  await updated(subscription)
  expect(await used(key)).toBe(0)
  expect(await disagreements()).toEqual([])
})
