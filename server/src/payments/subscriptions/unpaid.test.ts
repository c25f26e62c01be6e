/** Periods that are not paid yet: a first one entitles to nothing, and a later one brings no new quota and no other plan (B10). */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { TestKey } from '../../../test/customer.ts'
import { SubscriptionHouse } from '../../../test/subscriptionHouse.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../lib/time.ts'

const house = new SubscriptionHouse()
const { admin, call, clock, shown, subscribed, tell, checkout } = house
beforeAll(house.open)
afterAll(house.close)

const itemOf = (subscription: string) => {
  const { data } = house.stripe.find(subscription)['items'] as { data: { current_period_end: number }[] }
  return data[0] ?? { current_period_end: 0 }
}
const turnTo = (ms: number) => {
  house.aheadMs += ms - clock.now()
}
const used = async (key: TestKey) => {
  const { usage } = (await shown(key)) as { usage?: Record<string, unknown> }
  return usage?.['weighted_output_tokens']
}

/** Begins a period at Stripe, of which the invoice has a state. */
function begin(subscription: string, from: number, invoice: object, more: object = {}): string {
  const start = Math.floor(from / SECOND_MS)
  const period = { current_period_start: start, current_period_end: start + (30 * DAY_MS) / SECOND_MS }
  const { customer } = house.stripe.find(subscription)
  const made = house.stripe.make('in', 'invoice', { billing_reason: 'subscription_cycle', customer, ...invoice })
  const items = { object: 'list', data: [{ ...itemOf(subscription), ...period, ...more }] }
  house.stripe.change(subscription, { items, latest_invoice: made.id })
  return made.id
}

/** Subscribes, uses 5 tokens, and comes to a second after the end of the period. */
async function renewing() {
  const key = await admin()
  const subscription = await subscribed(key, { plan_key: 'small' })
  expect((await call(key)).status).toBe(200)
  const endMs = itemOf(subscription).current_period_end * SECOND_MS
  turnTo(endMs + SECOND_MS)
  return { key, subscription, endMs }
}

test('a first period whose payment is on its way entitles once it is paid, and not before', async () => {
  const key = await admin()
  const session = await checkout(key, { plan_key: 'small' })
  house.stripe.pay(session)
  const subscription = house.stripe.subscriptionOf(session)
  const invoice = String(house.stripe.find(subscription)['latest_invoice'])
  house.stripe.change(invoice, { status: 'open', amount_paid: 0 })
  await tell('customer.subscription.created', subscription)
  expect(await shown(key)).toMatchObject({ subscribed: false, status: 'incomplete' })
  expect((await call(key)).status).toBe(402)
  house.stripe.change(invoice, { status: 'paid', amount_paid: 2_000 })
  await tell('customer.subscription.updated', subscription)
  expect(await shown(key)).toMatchObject({ subscribed: true, status: 'active' })
})

test('a renewal that is being paid counts on the meter of the period before, and begins its own when it is paid', async () => {
  const { key, subscription, endMs } = await renewing()
  const invoice = begin(subscription, endMs, { status: 'draft', amount_paid: 0 })
  await tell('customer.subscription.updated', subscription)
  turnTo(endMs + HOUR_MS + 5 * MINUTE_MS)
  expect((await call(key)).status).toBe(200)
  expect(await shown(key)).toMatchObject({ subscribed: true, status: 'active' })
  expect(await used(key)).toBe(10)
  house.stripe.change(invoice, { status: 'paid', amount_paid: 2_000 })
  await tell('customer.subscription.updated', subscription)
  expect(await used(key)).toBe(0)
  expect(await shown(key)).toMatchObject({ current_period_start: new Date(endMs).toISOString() })
})

test('a subscription that is paid counts in place of one whose renewal is unpaid for longer than it entitles', async () => {
  const { key, subscription, endMs } = await renewing()
  const invoice = begin(subscription, endMs, { status: 'open', amount_paid: 0 })
  await tell('customer.subscription.updated', subscription)
  turnTo(endMs + 4 * HOUR_MS)
  expect((await call(key)).status).toBe(402)
  const session = await checkout(key, { plan_key: 'small' })
  house.stripe.pay(session)
  const second = house.stripe.subscriptionOf(session)
  await tell('customer.subscription.created', second)
  expect(await shown(key)).toMatchObject({ subscribed: true, status: 'active' })
  expect((await call(key)).status).toBe(200)
  expect(house.stripe.find(second)['status']).toBe('active')
  expect(house.stripe.find(subscription)['status']).toBe('canceled')
  expect(house.stripe.find(invoice)['status']).not.toBe('paid')
})

test('a renewal that is not paid entitles for three hours at most', async () => {
  const { key, subscription, endMs } = await renewing()
  begin(subscription, endMs, { status: 'open', amount_paid: 0 })
  await tell('customer.subscription.updated', subscription)
  turnTo(endMs + 3 * HOUR_MS - MINUTE_MS)
  expect(await shown(key)).toMatchObject({ subscribed: true })
  turnTo(endMs + 3 * HOUR_MS)
  expect(await shown(key)).toMatchObject({ subscribed: false })
})

test('another price has its plan once it is paid', async () => {
  const key = await admin()
  const subscription = await subscribed(key, { plan_key: 'small' })
  const from = clock.now()
  const price = house.stripe.find(house.prices.large)
  const invoice = begin(subscription, from, { status: 'open', billing_reason: 'subscription_update' }, { price })
  await tell('customer.subscription.updated', subscription)
  expect(await shown(key)).toMatchObject({ subscribed: true, plan: { key: 'small' } })
  house.stripe.change(invoice, { status: 'paid', amount_paid: 5_000 })
  await tell('customer.subscription.updated', subscription)
  expect(await shown(key)).toMatchObject({ subscribed: true, plan: { key: 'large' } })
})

test.each([
  ['the operator sends the invoices', { collection_method: 'send_invoice' }],
  ['the operator has paused the collection', { pause_collection: { behavior: 'keep_as_draft' } }],
])('where %s, a renewal entitles at once', async (_, change) => {
  const { key, subscription, endMs } = await renewing()
  house.stripe.change(subscription, change)
  begin(subscription, endMs, { status: 'open', amount_paid: 0 })
  await tell('customer.subscription.updated', subscription)
  expect(await shown(key)).toMatchObject({ subscribed: true, current_period_start: new Date(endMs).toISOString() })
})
