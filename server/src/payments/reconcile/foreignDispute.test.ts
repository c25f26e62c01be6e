/** Disputes whose money is no US dollars: the operator's other business, or a bank of another country. */

import { expect, test } from 'bun:test'
import { useStripeRoom } from '../../../test/payments/stripeRoom.ts'
import { MINUTE_MS } from '../../lib/time.ts'
import { listFreezes } from '../freezes/freezes.ts'
import { reconcileDue } from './reconcile.ts'

const room = useStripeRoom()
const { parts, organization, paid, cents } = room

const inEuros = {
  amount: 900,
  currency: 'eur',
  balance_transactions: [{ id: 'txn_e', amount: -900, currency: 'eur', created: 1 }],
}

async function reconcile(startedAtMs: number): Promise<void> {
  for (let look = 0; look < 3; look += 1) {
    await room.clock.turn(10 * MINUTE_MS)
    await reconcileDue(parts(), startedAtMs, () => false)
  }
}

test('one of other business in the same Stripe account hides no dispute of ours', async () => {
  const organizationId = await organization()
  const startedAtMs = room.clock.now()
  const intent = room.stripe.make('pi', 'payment_intent', {
    ...{ status: 'succeeded', amount: 900, customer: null, metadata: {}, currency: 'eur' },
  })
  room.stripe.make('du', 'dispute', { ...inEuros, payment_intent: intent.id, status: 'needs_response' })
  const checkout = await paid(organizationId)
  await room.clock.turn(MINUTE_MS)
  room.stripe.dispute(checkout)
  await reconcile(startedAtMs)
  expect(await cents(organizationId)).toBe(0)
})

test('one of ours freezes its organization, and the rest is left to the operator', async () => {
  const organizationId = await organization()
  const startedAtMs = room.clock.now()
  const checkout = await paid(organizationId)
  const before = await cents(organizationId)
  room.stripe.change(room.stripe.dispute(checkout), inEuros)
  await reconcile(startedAtMs)
  const reasons = (await listFreezes(room.database, organizationId)).map(({ reason }) => reason)
  expect([await cents(organizationId), reasons]).toEqual([before, ['dispute']])
})
