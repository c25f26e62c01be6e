/** Objects that can't be read now, beside others that can: what can be applied is applied. */

import { expect, test } from 'bun:test'
import { useStripeRoom } from '../../../test/payments/stripeRoom.ts'
import type { StripeAnswer } from '../../../test/stripeObjects.ts'
import { MINUTE_MS } from '../../lib/time.ts'
import { customerOf } from '../topUps/customer.ts'

const room = useStripeRoom()
const { parts, organization, paid, paidThere, cents, differences, due, reconciledUntil } = room

const MISSING: StripeAnswer = {
  status: 404,
  json: { error: { type: 'invalid_request_error', code: 'resource_missing', message: 'secret words' } },
}
const BROKEN: StripeAnswer = { status: 500, json: { error: { type: 'api_error', message: 'secret words' } } }

/** Stripe answers this to each request for an object. */
function answerFor(id: string, answer: StripeAnswer): void {
  room.stripe.onRequest = ({ path }) => (path.endsWith(`/${id}`) ? answer : undefined)
}

test.each([
  ['does not have', MISSING, 'Stripe has no such object'],
  ['can not give', BROKEN, 'Stripe refused the request (500)'],
])('a refund that Stripe lists and %s keeps no other from being posted, and is tried again', async (_, answer, why) => {
  const organizationId = await organization()
  const checkout = await paid(organizationId)
  await due(0)
  await room.clock.turn(10 * MINUTE_MS)
  const earlier = room.stripe.refund(checkout, 300)
  const unreadable = room.stripe.refund(checkout, 500)
  const madeAtMs = room.clock.now()
  const later = room.stripe.refund(checkout, 400)
  answerFor(unreadable, answer)
  await room.clock.turn(10 * MINUTE_MS)
  await due(0)
  expect(await cents(organizationId)).toBe(1_300)
  expect(await reconciledUntil()).toBeLessThanOrEqual(madeAtMs)
  const lines = room.lines.filter((line) => line.includes('the next comparison tries it again'))
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ object: unreadable, why }])
  expect(room.lines.join('')).not.toContain('secret words')
  room.stripe.onRequest = () => undefined
  await room.clock.turn(10 * MINUTE_MS)
  await due(0)
  expect(await cents(organizationId)).toBe(800)
  expect(await reconciledUntil()).toBe(room.clock.now())
  expect(new Set([earlier, unreadable, later]).size).toBe(3)
})

test('a checkout of ours in euros is not posted, and the payments beside it are', async () => {
  const [first, second, third] = [await organization(), await organization(), await organization()]
  await paidThere(first)
  const inEuros = await paidThere(second)
  await paidThere(third)
  room.stripe.change(inEuros, { currency: 'eur' })
  await room.clock.turn(MINUTE_MS)
  const found = await differences()
  const unreadable = found.filter(({ kind }) => kind === 'unreadable')
  expect(unreadable).toMatchObject([
    { object: inEuros, isMended: false, unreadable: { why: 'it was paid in eur, not in usd' } },
  ])
  expect(await Promise.all([first, second, third].map(cents))).toEqual([2_000, 0, 2_000])
})

const empty = { object: 'list', data: [] }

test('a subscription without items is nothing to us where it is of other business, and unreadable where it is ours', async () => {
  const others = room.stripe.make('cus', 'customer', { metadata: {} }).id
  room.stripe.change(room.stripe.beginSubscription(others, room.price()), { items: empty })
  await room.clock.turn(MINUTE_MS)
  expect(await differences()).toEqual([])
  const ours = await room.subscribe(await organization())
  await due(0)
  room.stripe.change(ours, { items: empty })
  await room.clock.turn(MINUTE_MS)
  expect(await differences()).toMatchObject([
    { kind: 'unreadable', object: ours, unreadable: { why: 'it has no item' } },
  ])
})

test('an invoice of auto-pay whose payments can not be read keeps no other from being posted', async () => {
  const organizationId = await organization()
  const customer = await customerOf(parts(), organizationId)
  const made = ['first', 'second'].map(() => {
    const metadata = { tollgate_payment: crypto.randomUUID(), tollgate_kind: 'auto_pay' }
    const amounts = { total: 700, total_excluding_tax: 700, subtotal: 700 }
    room.stripe.make('in', 'invoice', { status: 'paid', customer, metadata, ...amounts })
    return metadata.tollgate_payment
  })
  await room.clock.turn(MINUTE_MS)
  let asked = 0
  room.stripe.onRequest = ({ path }) => {
    if (path !== '/v1/invoice_payments') return undefined
    asked += 1
    return asked === 1 ? MISSING : undefined
  }
  // The newest comes first in Stripe's list.
  const [readable = '', unreadable = ''] = made
  const found = await differences()
  expect(found.map(({ kind, object }) => [kind, object])).toEqual([
    ['payment', readable],
    ['unreadable', unreadable],
  ])
  expect(await cents(organizationId)).toBe(700)
})

test('a list that Stripe can not give ends the comparison', async () => {
  room.stripe.onRequest = ({ path }) => (path === '/v1/refunds' ? BROKEN : undefined)
  await expect(differences()).rejects.toThrow('can’t be asked')
})
