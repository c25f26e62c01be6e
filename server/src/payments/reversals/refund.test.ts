/** Refunds that the operator wants: whole and in part, with answers lost at every step. Never two for one. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { makeCustomer } from '../../../test/customer.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { openStripeServer, STRIPE_KEY, type StripeServer } from '../../../test/stripeServer.ts'
import { readBalance } from '../../billing/admission/balance/balance.ts'
import { systemClock } from '../../infra/clock.ts'
import { createLog } from '../../infra/log.ts'
import { systemRandom } from '../../infra/random.ts'
import { Secret } from '../../lib/secret.ts'
import type { PaymentProvider } from '../provider/provider.ts'
import { createStripe } from '../stripe/client.ts'
import { createStripeProvider } from '../stripe/provider.ts'
import { refreshPayment } from '../topUps/refresh.ts'
import { openTopUp } from '../topUps/topUp.ts'
import { finishRefunds, refundPayment } from './refund.ts'

let fresh: FreshDatabase
let stripe: StripeServer
let provider: PaymentProvider
const log = createLog('debug', { write: () => {} })
beforeAll(async () => {
  fresh = await freshDatabase()
  stripe = await openStripeServer()
  const client = createStripe({ secretKey: new Secret(STRIPE_KEY), apiUrl: stripe.url })
  provider = createStripeProvider({ stripe: client, log, automaticTax: false })
})
afterAll(async () => {
  await stripe.close()
  await fresh.drop()
})
beforeEach(() => {
  stripe.failures = 0
})

const parts = (other: PaymentProvider = provider) => ({
  database: fresh.database,
  clock: systemClock,
  random: systemRandom(),
  log,
  provider: other,
  plans: () => [],
})

async function paid(taxCents = 0) {
  const { organizationId } = await makeCustomer(fresh.database, { cents: 0 })
  const urls = {
    successUrl: 'https://t.test/done',
    cancelUrl: 'https://t.test/no',
    savesMethod: false,
    keep: async () => [],
  }
  const { id, checkout } = await openTopUp(parts(), { organizationId, amountCents: 2_000, ...urls })
  stripe.pay(checkout ?? '', { taxCents })
  await refreshPayment(parts(), { id })
  const intent = String(stripe.find(checkout ?? '')['payment_intent'])
  const refunds = () => stripe.all('refund').filter((each) => each['payment_intent'] === intent)
  return {
    checkout: checkout ?? '',
    refund: (amountCents: number | null = null, other = provider) =>
      refundPayment(parts(other), { paymentId: id, amountCents }),
    amounts: () => refunds().map((each) => each['amount']),
    balance: async () => Number((await readBalance(fresh.database, organizationId)) / 1_000_000n),
  }
}

test('a refund gives back the part with its tax, then all that is left, and no more', async () => {
  const payment = await paid(380)
  expect(await payment.refund(2_001)).toEqual({ kind: 'too_much', leftCents: 2_000 })
  expect(await payment.refund(1_000)).toMatchObject({ kind: 'refunded' })
  expect(await payment.balance()).toBe(1_000)
  expect(await payment.refund(1)).toMatchObject({ kind: 'refunded' })
  expect(await payment.refund()).toMatchObject({ kind: 'refunded' })
  expect(await payment.balance()).toBe(0)
  expect(payment.amounts()).toEqual([1_190, 1, 1_189])
  expect(await payment.refund()).toEqual({ kind: 'too_much', leftCents: 0 })
})

test('a refund whose answer is lost is found out before another one, also when Stripe has forgotten its key', async () => {
  const payment = await paid()
  const losing: PaymentProvider = {
    ...provider,
    async refund(wanted) {
      await provider.refund(wanted)
      throw new Error('lost')
    },
  }
  await expect(payment.refund(500, losing)).rejects.toThrow('lost')
  stripe.forgetKeys()
  expect(await payment.refund(500)).toMatchObject({ kind: 'finished' })
  expect(payment.amounts()).toEqual([500])
  expect(await payment.balance()).toBe(1_500)
  expect(await payment.refund(500)).toMatchObject({ kind: 'refunded' })
  expect(await payment.balance()).toBe(1_000)
})

test('a refund that was wanted before the process died is carried out by the reconciliation', async () => {
  const payment = await paid()
  const dying: PaymentProvider = { ...provider, refund: () => Promise.reject(new Error('killed')) }
  await expect(payment.refund(500, dying)).rejects.toThrow('killed')
  expect(payment.amounts()).toEqual([])
  expect(await finishRefunds(parts())).toBe(1)
  expect(await finishRefunds(parts())).toBe(0)
  expect([payment.amounts(), await payment.balance()]).toEqual([[500], 1_500])
})

test('one that is killed between the refund and its entry is posted once', async () => {
  const payment = await paid()
  const dying: PaymentProvider = { ...provider, retrieveReversal: () => Promise.reject(new Error('killed')) }
  await expect(payment.refund(500, dying)).rejects.toThrow('killed')
  expect([payment.amounts(), await payment.balance()]).toEqual([[500], 2_000])
  await finishRefunds(parts())
  await finishRefunds(parts())
  expect([payment.amounts(), await payment.balance()]).toEqual([[500], 1_500])
})

test('asked for by ten at once, one refund of the whole is made', async () => {
  const payment = await paid()
  await Promise.allSettled(Array.from({ length: 10 }, () => payment.refund()))
  expect([payment.amounts(), await payment.balance()]).toEqual([[2_000], 0])
})

test('a payment that moved no money is refunded by nobody, and holds no refund open', async () => {
  expect(await provider.refund({ payment: 'in_1', amountCents: 500, request: crypto.randomUUID() })).toBeNull()
})

test('where Stripe can’t be asked it stays open; one that Stripe never makes is given up, and posts nothing', async () => {
  const payment = await paid()
  stripe.failures = 2
  await expect(payment.refund(500)).rejects.toThrow('can’t be asked')
  expect(await payment.balance()).toBe(2_000)
  stripe.failures = 0
  expect(await payment.refund(500)).toMatchObject({ kind: 'finished' })
  stripe.refund(payment.checkout, 1_200)
  expect(await payment.refund(1_000)).toEqual({ kind: 'refused' })
  expect(await payment.balance()).toBe(1_500)
  expect(await payment.refund(300)).toMatchObject({ kind: 'refunded' })
})

test('a payment that is not paid, or not there, is not refunded', async () => {
  for (const paymentId of [crypto.randomUUID(), 'x']) {
    expect(await refundPayment(parts(), { paymentId, amountCents: null })).toEqual({ kind: 'unknown' })
  }
})
