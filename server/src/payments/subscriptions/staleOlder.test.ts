/** A subscription that is bought while the row of an older one still says that it lives, though it has just ended. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { SubscriptionHouse } from '../../../test/subscriptionHouse.ts'
import { MINUTE_MS, SECOND_MS } from '../../lib/time.ts'

const house = new SubscriptionHouse()
const { admin, clock, shown, subscribed, sweep, tell, checkout } = house
beforeAll(house.open)
afterAll(house.close)

/** Subscribes, ends that at Stripe where nobody tells of it, and subscribes once more. */
async function resubscribe() {
  const key = await admin()
  const first = await subscribed(key, { plan_key: 'small' })
  house.stripe.change(first, { cancel_at_period_end: true })
  const { data } = house.stripe.find(first)['items'] as { readonly data: { readonly current_period_end: number }[] }
  const endMs = (data[0]?.current_period_end ?? 0) * SECOND_MS
  // Its next look is a minute after the end then.
  house.aheadMs += endMs - 10 * MINUTE_MS - clock.now()
  await sweep()
  expect(await tell('customer.subscription.updated', first)).toBe(200)
  house.aheadMs += endMs + 2 * SECOND_MS - clock.now()
  house.stripe.change(first, { status: 'canceled' })
  const session = await checkout(key, { plan_key: 'small' })
  house.stripe.pay(session)
  return { key, first, second: house.stripe.subscriptionOf(session) }
}

test('it counts, and is not taken for one too many', async () => {
  const { key, first, second } = await resubscribe()
  await tell('customer.subscription.created', second)
  expect(await shown(key)).toMatchObject({ subscribed: true, status: 'active' })
  expect(house.stripe.find(second)['status']).toBe('active')
  expect(house.stripe.all('refund')).toEqual([])
  await tell('customer.subscription.deleted', first)
  expect(await shown(key)).toMatchObject({ subscribed: true, status: 'active' })
})

test('where the first word is of the older one, the same', async () => {
  const { key, first, second } = await resubscribe()
  await tell('customer.subscription.deleted', first)
  await tell('customer.subscription.created', second)
  expect(await shown(key)).toMatchObject({ subscribed: true, status: 'active' })
  expect(house.stripe.find(second)['status']).toBe('active')
})
