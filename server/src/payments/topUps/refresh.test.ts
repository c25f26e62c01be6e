/** Payments that nobody tells of, or that many tell of at once. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { makeCustomer } from '../../../test/customer.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { createLog } from '../../infra/log.ts'
import { systemRandom } from '../../infra/random.ts'
import { refuse } from '../../lib/errors.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/time.ts'
import { createLocalProvider, type LocalProvider } from '../local/provider.ts'
import type { PaymentProvider } from '../provider/provider.ts'
import { findPayment } from './list.ts'
import { refreshPayment } from './refresh.ts'
import { sweepPayments } from './sweep.ts'
import { openTopUp } from './topUp.ts'

const random = systemRandom()
let fresh: FreshDatabase
let clock: TurnedClock
let local: LocalProvider
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())
beforeEach(async () => {
  await fresh.database.query('delete from payments')
  clock = new TurnedClock(Date.UTC(2030, 0, 15, 12))
  local = createLocalProvider({ database: fresh.database, clock, random, pageUrl: (path) => `https://t.test${path}` })
})

const dependencies = (provider: PaymentProvider = local) => ({
  database: fresh.database,
  clock,
  random,
  provider,
  log: createLog('debug', { write: () => {} }),
})

async function opened(provider: PaymentProvider = local) {
  const { organizationId } = await makeCustomer(fresh.database, { cents: 0 }, clock)
  const urls = { successUrl: 'https://t.test/done', cancelUrl: 'https://t.test/no' }
  const made = await openTopUp(dependencies(provider), {
    organizationId,
    amountCents: 700,
    ...urls,
    savesMethod: false,
    keep: async () => [],
  })
  return { ...made, checkout: made.checkout ?? '' }
}

const pay = (checkout: string) => local.choose(checkout, { kind: 'pay', card: 'succeeds', savesCard: false })
const sweep = () => sweepPayments(dependencies(), () => false)
const now = async ({ organizationId, id }: { organizationId: string; id: string }) =>
  findPayment(fresh.database, organizationId, id)

async function credits(organizationId: string): Promise<number[]> {
  const rows = await fresh.database.query<{ amount: bigint }>(
    'select amount_microcents as amount from ledger_entries where organization_id = $1',
    [organizationId],
  )
  return rows.map(({ amount }) => Number(amount) / 1e6)
}

test('a payment that nobody tells of is found by asking, and credited once', async () => {
  const payment = await opened()
  await pay(payment.checkout)
  expect(await sweep()).toBe(0)
  await clock.turn(MINUTE_MS)
  expect(await sweep()).toBe(1)
  expect(await now(payment)).toMatchObject({ state: 'paid', amountCents: 700 })
  await clock.turn(30 * DAY_MS)
  expect(await sweep()).toBe(0)
  expect(await credits(payment.organizationId)).toEqual([700])
})

test('told by twenty at once and swept meanwhile, a payment is credited once', async () => {
  const payment = await opened()
  await pay(payment.checkout)
  await clock.turn(MINUTE_MS)
  const told = Array.from({ length: 20 }, () => refreshPayment(dependencies(), { checkout: payment.checkout }))
  const results = await Promise.all([...told, sweep(), sweep()])
  expect(results).toContain('applied')
  expect(await credits(payment.organizationId)).toEqual([700])
})

test('a checkout that nobody pays expires after a day, looked at less and less often', async () => {
  const payment = await opened()
  let looks = 0
  for (let minute = 0; minute < 26 * 60; minute += 1) {
    await clock.turn(MINUTE_MS)
    looks += await sweep()
  }
  expect(await now(payment)).toMatchObject({ state: 'expired', reason: expect.stringContaining('in time') })
  expect(looks).toBeLessThan(40)
  expect(await credits(payment.organizationId)).toEqual([])
})

test('an older look never undoes a newer one', async () => {
  const payment = await opened()
  const held = Promise.withResolvers<void>()
  const retrieved = Promise.withResolvers<void>()
  const slow: PaymentProvider = {
    ...local,
    async retrieveCheckout(id) {
      const before = await local.retrieveCheckout(id)
      retrieved.resolve()
      await held.promise
      return before
    },
  }
  const older = refreshPayment(dependencies(slow), { id: payment.id })
  await retrieved.promise
  await clock.turn(25 * HOUR_MS)
  await refreshPayment(dependencies(), { id: payment.id })
  held.resolve()
  expect(await older).toBe('superseded')
  expect(await now(payment)).toMatchObject({ state: 'expired' })
})

test('a payment that was paid in the moment in which it expired is credited', async () => {
  const payment = await opened()
  await clock.turn(25 * HOUR_MS)
  await sweep()
  expect(await now(payment)).toMatchObject({ state: 'expired' })
  const facts = {
    state: 'paid',
    payment: 'lpy_late',
    amountCents: 700,
    grossCents: 700,
    receiptUrl: null,
    savedMethod: null,
  } as const
  const late: PaymentProvider = { ...local, retrieveCheckout: async () => facts }
  await refreshPayment(dependencies(late), { checkout: payment.checkout })
  expect(await now(payment)).toMatchObject({ state: 'paid', reason: null })
  expect(await credits(payment.organizationId)).toEqual([700])
})

test('a payment that is paid stays paid, whatever is retrieved afterwards', async () => {
  const payment = await opened()
  await pay(payment.checkout)
  await refreshPayment(dependencies(), { id: payment.id })
  const facts = { state: 'expired', reason: 'no' } as const
  const forgetful: PaymentProvider = { ...local, retrieveCheckout: async () => facts }
  expect(await refreshPayment(dependencies(forgetful), { id: payment.id })).toBe('applied')
  expect(await now(payment)).toMatchObject({ state: 'paid', reason: null })
})

test('a payment provider that can’t be asked fails the top-up; one that stays silent is asked again later', async () => {
  const away: PaymentProvider = {
    ...local,
    openCheckout: async () => refuse('payment-source-unavailable', 'away'),
    retrieveCheckout: async () => refuse('payment-source-unavailable', 'away'),
  }
  await expect(opened(away)).rejects.toThrow('away')
  const rows = await fresh.database.query<{ state: string }>('select state from payments')
  expect(rows).toEqual([{ state: 'failed' }])
  const payment = await opened()
  await pay(payment.checkout)
  await clock.turn(MINUTE_MS)
  await sweepPayments(dependencies(away), () => false)
  expect(await now(payment)).toMatchObject({ state: 'open' })
  await clock.turn(MINUTE_MS)
  await sweep()
  expect(await credits(payment.organizationId)).toEqual([700])
})

test('a process that died while a checkout was being opened leaves a payment that fails', async () => {
  const dying: PaymentProvider = { ...local, openCheckout: () => new Promise(() => {}) }
  void opened(dying)
  const rows = () => fresh.database.query<{ state: string }>('select state from payments')
  while ((await rows()).length === 0);
  expect(await rows()).toEqual([{ state: 'opening' }])
  await clock.turn(5 * MINUTE_MS)
  await sweep()
  expect(await rows()).toEqual([{ state: 'failed' }])
})
