/** Without callbacks, as behind a firewall: each change of which a callback would tell is found all the same, and counts once. */

import { expect, test } from 'bun:test'
import { CHECKOUT_PAGES, useStripeRoom } from '../../../test/payments/stripeRoom.ts'
import { readSubscription } from '../../billing/plans/readPlan.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/time.ts'
import { HEARD_TYPES } from '../stripe/listEvents.ts'
import { customerOf } from '../topUps/customer.ts'
import { openTopUp } from '../topUps/topUp.ts'
import { hearing } from './hearing.ts'

const room = useStripeRoom()
const { organization, paid, cents, pass, subscribe, withoutEvents } = room

async function openTopUpThere(organizationId: string): Promise<string> {
  const { checkout } = await openTopUp(room.parts(), { organizationId, amountCents: 2_000, ...CHECKOUT_PAGES })
  return checkout ?? ''
}

async function paymentState(checkout: string): Promise<string | undefined> {
  const rows = await room.database.query<{ state: string }>('select state from payments where checkout = $1', [
    checkout,
  ])
  return rows[0]?.state
}

async function reversalState(reversal: string): Promise<string | undefined> {
  const query = 'select state from payment_reversals where reversal = $1'
  return (await room.database.query<{ state: string }>(query, [reversal]))[0]?.state
}

async function subscriptionOf(organizationId: string) {
  const found = await readSubscription(room.database, organizationId, room.clock.now())
  return found && { status: found.status, plan: found.planKey, cancels: found.cancelAtPeriodEnd }
}

/** A change at Stripe, the type of the event that tells of it, and the call by which it is found; its work returns a look at it. */
type Change = readonly [
  type: (typeof HEARD_TYPES)[number],
  change: string,
  foundBy: 'look' | 'list' | 'events',
  work: (organizationId: string) => Promise<() => Promise<unknown>>,
  expected: unknown,
]

const CHANGES: readonly Change[] = [
  [
    'checkout.session.completed',
    'a top-up is paid',
    'look',
    async (id) => {
      room.stripe.pay(await openTopUpThere(id))
      return () => cents(id)
    },
    2_000,
  ],
  [
    'checkout.session.completed',
    'a checkout of a plan is paid',
    'look',
    async (id) => {
      await subscribe(id)
      return () => subscriptionOf(id)
    },
    { status: 'active', plan: 'small', cancels: false },
  ],
  [
    'checkout.session.expired',
    'a checkout expires',
    'look',
    async (id) => {
      const checkout = await openTopUpThere(id)
      room.stripe.change(checkout, { status: 'expired' })
      return () => paymentState(checkout)
    },
    'expired',
  ],
  [
    'checkout.session.async_payment_succeeded',
    'money comes three days later',
    'look',
    async (id) => {
      const checkout = await openTopUpThere(id)
      room.stripe.pay(checkout, { delayed: true })
      await pass(3 * DAY_MS)
      expect([await paymentState(checkout), await cents(id)]).toEqual(['processing', 0])
      room.stripe.settle(checkout, true)
      return () => cents(id)
    },
    2_000,
  ],
  [
    'checkout.session.async_payment_failed',
    'money does not come',
    'look',
    async (id) => {
      const checkout = await openTopUpThere(id)
      room.stripe.pay(checkout, { delayed: true })
      await pass(3 * DAY_MS)
      room.stripe.settle(checkout, false)
      return () => paymentState(checkout)
    },
    'failed',
  ],
  [
    'customer.subscription.created',
    'the operator begins a subscription at Stripe',
    'events',
    async (id) => {
      room.stripe.beginSubscription(await customerOf(room.parts(), id), room.price())
      return () => subscriptionOf(id)
    },
    { status: 'active', plan: 'small', cancels: false },
  ],
  [
    'customer.subscription.updated',
    'a customer cancels in the portal',
    'look',
    async (id) => {
      room.stripe.change(await subscribe(id), { cancel_at_period_end: true })
      return () => subscriptionOf(id)
    },
    { status: 'active', plan: 'small', cancels: true },
  ],
  [
    'customer.subscription.updated',
    'the invoice of a renewal fails',
    'look',
    async (id) => {
      room.stripe.change(await subscribe(id), { status: 'past_due' })
      return () => subscriptionOf(id)
    },
    { status: 'past_due', plan: 'small', cancels: false },
  ],
  [
    'customer.subscription.updated',
    'the invoice of a renewal is paid later',
    'look',
    async (id) => {
      const subscription = await subscribe(id)
      room.stripe.change(subscription, { status: 'past_due' })
      await pass(12 * DAY_MS)
      room.stripe.change(subscription, { status: 'active' })
      return () => subscriptionOf(id)
    },
    { status: 'active', plan: 'small', cancels: false },
  ],
  [
    'customer.subscription.deleted',
    'a subscription ends at Stripe',
    'look',
    async (id) => {
      room.stripe.change(await subscribe(id), { status: 'canceled' })
      return () => subscriptionOf(id)
    },
    { status: 'canceled', plan: 'small', cancels: false },
  ],
  [
    'refund.created',
    'a payment of two months ago is refunded in the dashboard',
    'list',
    async (id) => {
      const checkout = await paid(id)
      await pass(60 * DAY_MS)
      room.stripe.refund(checkout, 500)
      return () => cents(id)
    },
    1_500,
  ],
  [
    'refund.updated',
    'a refund that waits succeeds',
    'look',
    async (id) => {
      const refund = room.stripe.refund(await paid(id), 500)
      room.stripe.change(refund, { status: 'pending' })
      await pass(10 * MINUTE_MS)
      expect([await reversalState(refund), await cents(id)]).toEqual(['pending', 1_500])
      await pass(3 * DAY_MS)
      room.stripe.change(refund, { status: 'succeeded' })
      return () => reversalState(refund)
    },
    'succeeded',
  ],
  [
    'refund.failed',
    'a refund fails after days',
    'look',
    async (id) => {
      const refund = room.stripe.refund(await paid(id), 500)
      await pass(9 * DAY_MS)
      expect(await cents(id)).toBe(1_500)
      room.stripe.failRefund(refund)
      await pass(DAY_MS)
      return () => cents(id)
    },
    2_000,
  ],
  [
    'refund.failed',
    'a refund fails after 40 days',
    'events',
    async (id) => {
      const refund = room.stripe.refund(await paid(id), 500)
      await pass(10 * MINUTE_MS)
      await pass(40 * DAY_MS)
      room.stripe.failRefund(refund)
      await pass(DAY_MS)
      return () => cents(id)
    },
    2_000,
  ],
  [
    'charge.dispute.created',
    'a payment of two months ago is disputed',
    'list',
    async (id) => {
      const checkout = await paid(id)
      await pass(60 * DAY_MS)
      room.stripe.dispute(checkout)
      return () => cents(id)
    },
    0,
  ],
  [
    'charge.dispute.funds_withdrawn',
    'an inquiry becomes a dispute months later',
    'look',
    async (id) => {
      const dispute = room.stripe.dispute(await paid(id), { isInquiry: true })
      await pass(80 * DAY_MS)
      expect(await cents(id)).toBe(2_000)
      room.stripe.decide(dispute, 'needs_response')
      return () => cents(id)
    },
    0,
  ],
  [
    'charge.dispute.updated',
    'an inquiry becomes a dispute',
    'look',
    async (id) => {
      const dispute = room.stripe.dispute(await paid(id), { isInquiry: true })
      await pass(DAY_MS)
      room.stripe.decide(dispute, 'needs_response')
      return () => reversalState(dispute)
    },
    'open',
  ],
  [
    'charge.dispute.closed',
    'a dispute is won months later',
    'look',
    async (id) => {
      const dispute = room.stripe.dispute(await paid(id))
      await pass(80 * DAY_MS)
      expect(await cents(id)).toBe(0)
      room.stripe.decide(dispute, 'won')
      return () => cents(id)
    },
    2_000,
  ],
  [
    'charge.dispute.funds_reinstated',
    'a bank gives back a dispute that was lost 40 days ago',
    'events',
    async (id) => {
      const dispute = room.stripe.dispute(await paid(id))
      await pass(10 * MINUTE_MS)
      room.stripe.decide(dispute, 'lost')
      await pass(2 * HOUR_MS)
      await pass(40 * DAY_MS)
      room.stripe.decide(dispute, 'won')
      await pass(DAY_MS)
      return () => cents(id)
    },
    2_000,
  ],
]

test.each(CHANGES)('%s: %s: found by the %s', async (_, __, foundBy, work, expected) => {
  await pass(0)
  const id = await organization()
  if (foundBy !== 'events') withoutEvents()
  const look = await work(id)
  await pass(61 * MINUTE_MS)
  expect(await look()).toEqual(expected)
})

test.each(CHANGES.filter(([, , foundBy]) => foundBy === 'events'))(
  '%s: %s: nothing but the list of events has it',
  async (_, __, ___, work, expected) => {
    await pass(0)
    const id = await organization()
    withoutEvents()
    const look = await work(id)
    for (const days of [1, 32]) await pass(days * DAY_MS)
    expect(await look()).not.toEqual(expected)
  },
)

test('every type of event that a callback is asked for has a change here, and stands in docs/payments.md', async () => {
  const text = await Bun.file(new URL('../../../../docs/payments.md', import.meta.url)).text()
  expect([...new Set(CHANGES.map(([type]) => type))].toSorted()).toEqual([...HEARD_TYPES].toSorted())
  const named = text.match(/`(checkout\.session|customer|refund|charge)\.[a-z_.]+`/g) ?? []
  expect([...new Set(named.map((each) => each.slice(1, -1)))].toSorted()).toEqual([...HEARD_TYPES].toSorted())
})

const askedFor = (id: string) => room.stripe.asked.filter(({ path }) => path.endsWith(`/${id}`)).length
const eventsOf = (id: string) =>
  room.stripe.all('event').filter((event) => (event['data'] as { object: { id: string } }).object.id === id)

test('an event that is listed and told by its callback too, at the same time and again, counts once', async () => {
  const id = await organization()
  const checkout = await paid(id)
  await pass(10 * MINUTE_MS)
  const refund = room.stripe.refund(checkout, 300)
  const event = eventsOf(refund)[0]?.id ?? ''
  const hear = hearing(room.parts())
  await Promise.all([
    hear.reversal(refund, event),
    room.differences(),
    hear.reversal(refund, event),
    room.differences(),
  ])
  expect(await cents(id)).toBe(1_700)
  await pass(10 * MINUTE_MS)
  const before = askedFor(refund)
  expect(await hear.reversal(refund, event)).toBe('applied')
  await room.differences()
  expect(askedFor(refund)).toBe(before)
  expect(await cents(id)).toBe(1_700)
})

test('hundreds of events of a subscription are listed page by page, and it is retrieved once for a hundred', async () => {
  const id = await organization()
  const subscription = await subscribe(id)
  await pass(2 * HOUR_MS)
  for (let count = 0; count < 250; count += 1)
    room.stripe.change(subscription, { cancel_at_period_end: count % 2 === 1 })
  await room.clock.turn(MINUTE_MS)
  const before = [askedFor(subscription), askedFor('events')]
  await room.differences(room.parts())
  expect([askedFor(subscription) - (before[0] ?? 0), askedFor('events') - (before[1] ?? 0)]).toEqual([3, 3])
  await room.differences(room.parts())
  expect(askedFor(subscription) - (before[0] ?? 0)).toBe(3)
})

test('events of another installation’s objects are looked at for an hour, and change nothing', async () => {
  await pass(0)
  const subscription = room.stripe.beginSubscription('cus_of_others', room.price())
  for (let minutes = 0; minutes < 120; minutes += 10) await pass(10 * MINUTE_MS)
  expect(askedFor(subscription)).toBeWithin(2, 9)
  expect(await room.database.query('select 1 from payment_subscriptions')).toEqual([])
})

test('the list of events is read again from the last reconciled instant where Stripe can’t be asked', async () => {
  const id = await organization()
  await customerOf(room.parts(), id)
  await pass(10 * MINUTE_MS)
  const before = await room.reconciledUntil()
  room.stripe.beginSubscription(await customerOf(room.parts(), id), room.price())
  const refuses = { status: 403, json: { error: { type: 'invalid_request_error', message: 'no' } } }
  room.stripe.onRequest = ({ path }) => (path === '/v1/events' ? refuses : undefined)
  for (let days = 0; days < 4; days += 1) await pass(DAY_MS)
  expect(await room.reconciledUntil()).toBe(before)
  expect(await subscriptionOf(id)).toBeNull()
  room.stripe.onRequest = () => undefined
  await pass(10 * MINUTE_MS)
  expect(await subscriptionOf(id)).toMatchObject({ status: 'active', plan: 'small' })
})
