/** A second subscription whose money is still on its way when it is cancelled as one too many (B9). */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { SubscriptionHouse } from '../../../test/subscriptionHouse.ts'
import { DAY_MS, SECOND_MS } from '../../lib/time.ts'

const house = new SubscriptionHouse()
const { admin, shown, sweep, tell, checkout } = house
beforeAll(house.open)
afterAll(house.close)

/** Two checkouts: the first by bank debit, which takes days, the second by card. The first subscription is cancelled then. */
async function debitAndCard() {
  const key = await admin()
  const debit = await checkout(key, { plan_key: 'small' })
  house.stripe.pay(debit)
  const late = house.stripe.subscriptionOf(debit)
  const invoice = String(house.stripe.find(late)['latest_invoice'])
  const [paying] = house.stripe.all('invoice_payment').filter((each) => each['invoice'] === invoice)
  const { payment_intent: intent = '' } = (paying?.['payment'] ?? {}) as { payment_intent?: string }
  const set = (state: { invoice: string; payment: string; intent: string }) => {
    house.stripe.change(invoice, { status: state.invoice, amount_paid: state.invoice === 'paid' ? 2_000 : 0 })
    house.stripe.change(paying?.id ?? '', { status: state.payment })
    house.stripe.change(intent, { status: state.intent })
  }
  set({ invoice: 'open', payment: 'open', intent: 'processing' })
  house.stripe.change(late, { status: 'incomplete' })
  await tell('customer.subscription.created', late)
  house.aheadMs += 2 * SECOND_MS
  const card = await checkout(key, { plan_key: 'large' })
  house.stripe.pay(card)
  await tell('customer.subscription.created', house.stripe.subscriptionOf(card))
  expect(house.stripe.find(late)['status']).toBe('canceled')
  expect(await shown(key)).toMatchObject({ subscribed: true, plan: { key: 'large' } })
  const refunds = () => house.stripe.all('refund').filter((each) => each['payment_intent'] === intent)
  const daysLater = async () => {
    house.aheadMs += 4 * DAY_MS
    await sweep()
  }
  return { late, invoice, set, refunds, daysLater }
}

test('is refunded when the money has come, days later, and once', async () => {
  const { late, set, refunds, daysLater } = await debitAndCard()
  await daysLater()
  expect(refunds()).toEqual([])
  set({ invoice: 'paid', payment: 'paid', intent: 'succeeded' })
  await daysLater()
  expect(refunds()).toHaveLength(1)
  await tell('customer.subscription.updated', late)
  await daysLater()
  expect(refunds()).toHaveLength(1)
})

test('when the money does not come, its invoice is made void, so that nobody pays it', async () => {
  const { invoice, set, refunds, daysLater } = await debitAndCard()
  set({ invoice: 'open', payment: 'open', intent: 'requires_payment_method' })
  await daysLater()
  expect(house.stripe.find(invoice)['status']).toBe('void')
  expect(refunds()).toEqual([])
})
