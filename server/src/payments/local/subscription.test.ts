import { expect, test } from 'bun:test'
import { localPrice, periodEndOf, subscribe, subscriptionAt } from './subscription.ts'

test.each([
  ['local_2000_month', '2030-01-31T10:00:00Z', '2030-02-28T10:00:00Z'],
  ['local_2000_month', '2030-12-15T00:00:00Z', '2031-01-15T00:00:00Z'],
  ['local_2000_year', '2028-02-29T00:00:00Z', '2029-02-28T00:00:00Z'],
  ['local_1_week', '2030-02-26T00:00:00Z', '2030-03-05T00:00:00Z'],
  ['local_1_day', '2030-12-31T23:00:00Z', '2031-01-01T23:00:00Z'],
])('a period of %s from %s ends at %s', (price, start, end) => {
  expect(new Date(periodEndOf(price, Date.parse(start))).toISOString()).toBe(new Date(end).toISOString())
})

test.each(['local_0_month', 'local_2000_decade', 'price_1', 'local_2000', ''])('%p is no price', (id) => {
  expect(localPrice(id)).toBeNull()
})

test('a subscription is renewed at each period end, and ends at one where it is to', () => {
  const startMs = Date.UTC(2030, 0, 1)
  const made = subscribe('lcu_1', 'local_2000_month', startMs)
  const later = subscriptionAt(made, Date.UTC(2030, 3, 10))
  expect([later.periodStartMs, later.periodEndMs]).toEqual([Date.UTC(2030, 3, 1), Date.UTC(2030, 4, 1)])
  const cancelled = { ...made, cancelAtPeriodEnd: true }
  expect(subscriptionAt(cancelled, made.periodEndMs - 1).status).toBe('active')
  expect(subscriptionAt(cancelled, made.periodEndMs).status).toBe('canceled')
})
