/** Stripe's books against ours: by Stripe's official package, against a server that stands in for Stripe. */

import { expect, test } from 'bun:test'
import { restoreBackup, takeBackup } from '../../../test/backup.ts'
import { CHECKOUT_PAGES, useStripeRoom } from '../../../test/payments/stripeRoom.ts'
import { readSubscription } from '../../billing/plans/readPlan.ts'
import type { Plan } from '../../catalog/plan.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../lib/time.ts'
import { refreshReversal } from '../reversals/refresh.ts'
import { openSubscriptionCheckout } from '../subscriptions/checkout.ts'
import { noPrices } from '../subscriptions/prices.ts'
import { customerOf } from '../topUps/customer.ts'
import { openTopUp } from '../topUps/topUp.ts'
import type { PaymentDifference } from './difference.ts'
import { reconcileDue } from './reconcile.ts'
import { selectWindowEnd } from './store.ts'

const room = useStripeRoom()
const { parts, organization, paidThere, paid, cents, differences, due, reconciledUntil } = room

const kinds = (found: readonly PaymentDifference[]) => found.map(({ kind, isMended }) => [kind, isMended])

test('a list of thousands of payments is gone through page by page, and the one that is missing is posted', async () => {
  const organizationId = await organization()
  const customer = await customerOf(parts(), organizationId)
  const created = Math.floor(room.clock.now() / 1_000)
  const intent = (metadata: object) =>
    room.stripe.make('pi', 'payment_intent', {
      amount: 700,
      currency: 'usd',
      created,
      customer,
      metadata,
      status: 'succeeded',
    })
  const wanted = crypto.randomUUID()
  intent({ tollgate_payment: wanted, tollgate_kind: 'auto_pay' })
  for (let count = 0; count < 5_100; count += 1) intent({})
  await room.clock.turn(MINUTE_MS)
  const found = await differences(parts(), room.clock.now() - HOUR_MS)
  expect(found).toMatchObject([{ kind: 'payment', object: wanted, organizationId, amountCents: 700, isMended: true }])
  expect(await cents(organizationId)).toBe(700)
  expect(room.stripe.asked.filter(({ path }) => path === '/v1/payment_intents').length).toBe(52)
}, 60_000)

test('a window ends where it would hold too many payments, and is never empty', async () => {
  const organizationId = await organization()
  const fromMs = room.clock.now()
  for (let count = 0; count < 3; count += 1) {
    await paidThere(organizationId)
    await room.clock.turn(MINUTE_MS)
  }
  const window = { fromMs, untilMs: fromMs + DAY_MS }
  const end = (most: number) => selectWindowEnd(room.database, 'stripe', window, most)
  expect(await end(3)).toBe(window.untilMs)
  expect(await end(2)).toBe(fromMs + 2 * MINUTE_MS)
  expect(await end(1)).toBe(fromMs + MINUTE_MS)
  expect(await end(0)).toBe(fromMs + 1)
})

test('after a restored backup all that was paid, refunded and disputed since is posted, each once', async () => {
  const [first, second, third] = [await organization(), await organization(), await organization()]
  const plan = { key: 'small', paymentPrice: room.stripe.makePrice(2_000), name: 'Small' } as unknown as Plan
  const known = await paid(first)
  await due(room.clock.now())
  await room.clock.turn(HOUR_MS)
  await takeBackup(room.database)
  await room.clock.turn(HOUR_MS)
  // Since the backup: a payment of a new customer, one more of an old one, a refund, a dispute, and a subscription.
  const disputed = await paid(second, 900)
  await paid(first, 700)
  await refreshReversal(parts(), room.stripe.refund(known, 500))
  await refreshReversal(parts(), room.stripe.dispute(disputed))
  const opened = await openSubscriptionCheckout(
    { ...parts([plan]), readPrice: noPrices },
    { organizationId: third, planKey: null, ...CHECKOUT_PAGES },
  )
  room.stripe.pay(opened.checkout.id)
  const before = [await cents(first), await cents(second)]
  expect(before).toEqual([2_200, 0])
  await restoreBackup(room.database)
  expect([await cents(first), await cents(second)]).toEqual([2_000, 0])
  await room.clock.turn(DAY_MS)
  const found = await differences(parts([plan]))
  expect(kinds(found).toSorted()).toEqual([
    ['payment', true],
    ['payment', true],
    ['reversal', true],
    ['reversal', true],
    ['subscription', true],
  ])
  expect([await cents(first), await cents(second)]).toEqual(before)
  expect(await readSubscription(room.database, third, room.clock.now())).toMatchObject({
    planKey: 'small',
    status: 'active',
  })
  const frozen = await room.database.query('select organization_id as id, reason from organization_freezes')
  expect(frozen).toEqual([{ id: second, reason: 'dispute' }])
  expect(await differences(parts([plan]))).toEqual([])
})

test('without callbacks refunds and disputes are found every ten minutes, and when a process starts', async () => {
  const startedAtMs = room.clock.now()
  const id = await organization()
  const checkout = await paid(id)
  await room.clock.turn(SECOND_MS)
  expect(await due(startedAtMs)).toBe(true)
  expect(await reconciledUntil()).toBe(room.clock.now())
  room.stripe.refund(checkout, 300)
  expect(await due(startedAtMs)).toBe(false)
  expect(await cents(id)).toBe(2_000)
  await room.clock.turn(10 * MINUTE_MS)
  expect(await due(startedAtMs)).toBe(true)
  expect(await cents(id)).toBe(1_700)
  await room.clock.turn(MINUTE_MS)
  const dispute = room.stripe.dispute(checkout, { amountCents: 200 })
  expect(await due(room.clock.now())).toBe(true)
  expect(await cents(id)).toBe(1_500)
  room.stripe.decide(dispute, 'won')
  await room.clock.turn(10 * MINUTE_MS)
  await due(startedAtMs)
  expect(await cents(id)).toBe(1_700)
})

test('compared by ten processes at once, told of meanwhile, everything is posted once', async () => {
  const id = await organization()
  const checkouts = [await paidThere(id), await paid(id), await paid(id)]
  const refunds = checkouts.slice(1).map((checkout) => room.stripe.refund(checkout, 400))
  const told = refunds.flatMap((refund) => [refreshReversal(parts(), refund), refreshReversal(parts(), refund)])
  const compared = Array.from({ length: 10 }, () => differences())
  await Promise.all([...told, ...compared])
  await differences()
  expect(await cents(id)).toBe(5_200)
})

test('the last reconciled instant stays where Stripe can’t be asked, and it is tried again after a minute', async () => {
  const startedAtMs = room.clock.now()
  await due(startedAtMs)
  const before = await reconciledUntil()
  await room.clock.turn(10 * MINUTE_MS)
  const id = await organization()
  await paidThere(id)
  room.stripe.failures = 100
  expect(await due(startedAtMs)).toBe(true)
  expect(await reconciledUntil()).toBe(before)
  room.stripe.failures = 0
  expect(await due(startedAtMs)).toBe(false)
  await room.clock.turn(MINUTE_MS)
  expect(await due(startedAtMs)).toBe(true)
  expect(await reconciledUntil()).toBe(room.clock.now())
  expect(await cents(id)).toBe(2_000)
  expect(room.lines.join('')).not.toMatch(/sk_test|secret words/)
})

test('what is not this installation’s stays untouched', async () => {
  const id = await organization()
  const checkout = await paidThere(id)
  const customer = String(room.stripe.find(checkout)['customer'])
  for (const metadata of [{}, { tollgate_organization: crypto.randomUUID() }, { tollgate_organization: 'x' }]) {
    await room.database.query('truncate payments, payment_customers cascade')
    room.stripe.change(customer, { metadata })
    expect(await differences()).toEqual([])
  }
  expect(await room.database.query('select 1 from payments')).toEqual([])
})

test('a refund of a payment of ours that is not posted yet holds the last reconciled instant until it is', async () => {
  const id = await organization()
  const customer = String(room.stripe.find(await paid(id))['customer'])
  await due(0)
  const before = await reconciledUntil()
  const body = { status: 'succeeded', amount: 900, customer, metadata: { tollgate_payment: crypto.randomUUID() } }
  const intent = room.stripe.make('pi', 'payment_intent', body).id
  const refund = room.stripe.make('re', 'refund', { payment_intent: intent, amount: 900, status: 'succeeded' }).id
  await room.clock.turn(10 * MINUTE_MS)
  await due(0)
  expect(await reconciledUntil()).toBe(before)
  expect(await refreshReversal(parts(), refund)).toBe('superseded')
  const columns = 'id, organization_id, provider, kind, amount_cents, state, payment, created_at'
  await room.database.query(
    `insert into payments (${columns}) values (gen_random_uuid(), $1::uuid, 'stripe', 'top_up', 900, 'paid', $2, now())`,
    [id, intent],
  )
  await room.clock.turn(10 * MINUTE_MS)
  await due(0)
  expect(await reconciledUntil()).toBe(room.clock.now())
  expect(await cents(id)).toBe(1_100)
})

test('what Stripe does not have, has in another amount, or the ledger has in another sum is told, and not changed', async () => {
  const id = await organization()
  const [gone, changed, misposted] = [await paid(id, 500), await paid(id, 600), await paid(id, 700)]
  const refund = room.stripe.refund(changed, 100)
  await refreshReversal(parts(), refund)
  room.stripe.change(gone, { created: 0 })
  room.stripe.change(changed, { amount_total: 650 })
  room.stripe.change(refund, { created: 0 })
  await room.database.query(`update payments set amount_cents = 699 where checkout = $1`, [misposted])
  await room.clock.turn(MINUTE_MS)
  expect(kinds(await differences()).toSorted()).toEqual([
    ['amount', false],
    ['amount', false],
    ['ledger', false],
    ['payment_not_there', false],
    ['reversal_not_there', false],
  ])
  expect(await cents(id)).toBe(1_700)
})

test('lists of several pages are read to their end', async () => {
  const id = await organization()
  const checkout = await paid(id)
  for (let count = 0; count < 105; count += 1) room.stripe.refund(checkout, 1)
  expect(await differences()).toHaveLength(105)
  expect(await cents(id)).toBe(1_895)
})

test('a checkout that was opened after the backup, and is paid hours after it was restored, is found', async () => {
  const [first, second] = [await organization(), await organization()]
  const plan = { key: 'small', paymentPrice: room.stripe.makePrice(2_000), name: 'Small' } as unknown as Plan
  const compare = async () => {
    await room.clock.turn(10 * MINUTE_MS)
    await reconcileDue(parts([plan]), 0, () => false)
  }
  await compare()
  await takeBackup(room.database)
  const { checkout } = await openTopUp(parts(), { organizationId: first, amountCents: 700, ...CHECKOUT_PAGES })
  const forPlan = { organizationId: second, planKey: null, ...CHECKOUT_PAGES }
  const opened = await openSubscriptionCheckout({ ...parts([plan]), readPrice: noPrices }, forPlan)
  await restoreBackup(room.database)
  for (let times = 0; times < 20; times += 1) await compare()
  room.stripe.pay(checkout ?? '')
  room.stripe.pay(opened.checkout.id)
  await compare()
  expect(await cents(first)).toBe(700)
  expect(await readSubscription(room.database, second, room.clock.now())).toMatchObject({
    planKey: 'small',
    status: 'active',
  })
  await room.clock.turn(10 * MINUTE_MS)
  await due(0)
  expect(await reconciledUntil()).toBe(room.clock.now())
})

test('a clock that was a day ahead for a while hides no refund', async () => {
  const id = await organization()
  const checkout = await paid(id)
  const ahead = { ...parts(), clock: { ...room.clock, now: () => room.clock.now() + DAY_MS } }
  await reconcileDue(ahead as ReturnType<typeof parts>, 0, () => false)
  await room.clock.turn(10 * MINUTE_MS)
  await due(0)
  expect(await reconciledUntil()).toBe(room.clock.now())
  room.stripe.refund(checkout, 500)
  await room.clock.turn(10 * MINUTE_MS)
  await due(0)
  expect(await cents(id)).toBe(1_500)
})

test('nor does one that was set right while no server ran', async () => {
  const id = await organization()
  const checkout = await paid(id)
  const ahead = { ...parts(), clock: { ...room.clock, now: () => room.clock.now() + DAY_MS } }
  await reconcileDue(ahead as ReturnType<typeof parts>, 0, () => false)
  room.stripe.refund(checkout, 500)
  await room.clock.turn(DAY_MS + 90 * MINUTE_MS)
  await due(0)
  expect(await cents(id)).toBe(1_500)
  expect(await reconciledUntil()).toBe(room.clock.now())
})

test('nor does one after which Stripe can’t be asked for two months', async () => {
  const id = await organization()
  const checkout = await paid(id)
  const ahead = { ...parts(), clock: { ...room.clock, now: () => room.clock.now() + DAY_MS } }
  await reconcileDue(ahead as ReturnType<typeof parts>, 0, () => false)
  room.stripe.refund(checkout, 500)
  room.stripe.onRequest = () => ({ status: 500, json: {} })
  for (let months = 0; months < 2; months += 1) {
    await due(0)
    await room.clock.turn(30 * DAY_MS)
  }
  room.stripe.onRequest = () => undefined
  await due(0)
  expect(await cents(id)).toBe(1_500)
  expect(await reconciledUntil()).toBe(room.clock.now())
})

test('a payment by auto-pay that was under way when the backup was restored is credited when its money comes days later', async () => {
  const id = await organization()
  const customer = await customerOf(parts(), id)
  await room.clock.turn(10 * MINUTE_MS)
  await due(0)
  const before = room.clock.now()
  const metadata = { tollgate_payment: crypto.randomUUID(), tollgate_kind: 'auto_pay' }
  const body = { amount: 700, currency: 'usd', customer, metadata, status: 'processing' }
  const intent = room.stripe.make('pi', 'payment_intent', body)
  for (let days = 0; days < 4; days += 1) {
    await room.clock.turn(DAY_MS)
    await due(0)
  }
  expect(await reconciledUntil()).toBeWithin(before - SECOND_MS, before + SECOND_MS)
  room.stripe.change(intent.id, { status: 'succeeded' })
  for (let times = 0; times < 2; times += 1) {
    await room.clock.turn(10 * MINUTE_MS)
    await due(0)
  }
  expect(await cents(id)).toBe(700)
  expect(await reconciledUntil()).toBe(room.clock.now())
})
