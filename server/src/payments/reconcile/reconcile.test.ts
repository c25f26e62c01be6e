/** Stripe's books against ours: by Stripe's official package, against a server that stands in for Stripe. */

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { restoreBackup, takeBackup } from '../../../test/backup.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { makeCustomer } from '../../../test/customer.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { openStripeServer, STRIPE_KEY, type StripeServer } from '../../../test/stripeServer.ts'
import { readBalance } from '../../billing/admission/balance/balance.ts'
import { readSubscription } from '../../billing/plans/readPlan.ts'
import type { Plan } from '../../catalog/plan.ts'
import { systemClock } from '../../infra/clock.ts'
import { createLog } from '../../infra/log.ts'
import { systemRandom } from '../../infra/random.ts'
import { Secret } from '../../lib/secret.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../lib/time.ts'
import { refreshReversal } from '../reversals/refresh.ts'
import { createStripe } from '../stripe/client.ts'
import { createStripeProvider } from '../stripe/provider.ts'
import { openSubscriptionCheckout } from '../subscriptions/checkout.ts'
import { noPrices } from '../subscriptions/prices.ts'
import { customerOf } from '../topUps/customer.ts'
import { refreshPayment } from '../topUps/refresh.ts'
import { openTopUp } from '../topUps/topUp.ts'
import type { PaymentDifference } from './difference.ts'
import { openWindow, reconcile, reconcileDue } from './reconcile.ts'
import { selectWindowEnd } from './store.ts'

let fresh: FreshDatabase
let stripe: StripeServer
let clock: TurnedClock
let lines: string[] = []
const log = createLog('debug', { write: (line) => void lines.push(line) })
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())
beforeEach(async () => {
  stripe = await openStripeServer()
  clock = new TurnedClock(systemClock.now())
  stripe.nowMs = () => clock.now()
  lines = []
})
afterEach(async () => {
  await stripe.close()
  const tables = 'payments, payment_customers, payment_reversals, payment_movements, organization_freezes'
  await fresh.database.query(`truncate ${tables}, payment_reconciliations, payment_subscriptions cascade`)
})

function parts(plans: readonly Plan[] = []) {
  const client = createStripe({ secretKey: new Secret(STRIPE_KEY), apiUrl: stripe.url })
  const provider = createStripeProvider({ stripe: client, log, automaticTax: false })
  return { database: fresh.database, clock, random: systemRandom(), log, provider, plans: () => plans }
}

const urls = {
  successUrl: 'https://t.test/done',
  cancelUrl: 'https://t.test/no',
  savesMethod: false,
  keep: async () => [],
}
const organization = async () => (await makeCustomer(fresh.database, { cents: 0 }, clock)).organizationId

/** A checkout that is paid at Stripe, and of which nobody has told. */
async function paidThere(organizationId: string, amountCents = 2_000): Promise<string> {
  const { checkout } = await openTopUp(parts(), { organizationId, amountCents, ...urls })
  stripe.pay(checkout ?? '')
  return checkout ?? ''
}

async function paid(organizationId: string, amountCents = 2_000): Promise<string> {
  const checkout = await paidThere(organizationId, amountCents)
  expect(await refreshPayment(parts(), { checkout })).toBe('applied')
  return checkout
}

const cents = async (organizationId: string) => Number((await readBalance(fresh.database, organizationId)) / 1_000_000n)

async function differences(dependencies = parts(), sinceMs?: number): Promise<PaymentDifference[]> {
  const open = await openWindow(fresh.database, 'stripe', clock.now())
  const window = sinceMs === undefined ? open : { ...open, fromMs: sinceMs }
  return await Array.fromAsync(reconcile(dependencies, window))
}
const kinds = (found: readonly PaymentDifference[]) => found.map(({ kind, isMended }) => [kind, isMended])

const due = (startedAtMs: number) => reconcileDue(parts(), startedAtMs, () => false)
async function reconciledUntil(): Promise<number | null> {
  const rows = await fresh.database.query<{ at: Date | null }>(
    'select reconciled_until as at from payment_reconciliations',
  )
  return rows[0]?.at?.getTime() ?? null
}

test('a list of thousands of payments is gone through page by page, and the one that is missing is posted', async () => {
  const organizationId = await organization()
  const customer = await customerOf(parts(), organizationId)
  const created = Math.floor(clock.now() / 1_000)
  const intent = (metadata: object) =>
    stripe.make('pi', 'payment_intent', {
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
  await clock.turn(MINUTE_MS)
  const found = await differences(parts(), clock.now() - HOUR_MS)
  expect(found).toMatchObject([{ kind: 'payment', object: wanted, organizationId, amountCents: 700, isMended: true }])
  expect(await cents(organizationId)).toBe(700)
  expect(stripe.asked.filter(({ path }) => path === '/v1/payment_intents').length).toBe(52)
}, 60_000)

test('a window ends where it would hold too many payments, and is never empty', async () => {
  const organizationId = await organization()
  const fromMs = clock.now()
  for (let count = 0; count < 3; count += 1) {
    await paidThere(organizationId)
    await clock.turn(MINUTE_MS)
  }
  const window = { fromMs, untilMs: fromMs + DAY_MS }
  const end = (most: number) => selectWindowEnd(fresh.database, 'stripe', window, most)
  expect(await end(3)).toBe(window.untilMs)
  expect(await end(2)).toBe(fromMs + 2 * MINUTE_MS)
  expect(await end(1)).toBe(fromMs + MINUTE_MS)
  expect(await end(0)).toBe(fromMs + 1)
})

test('after a restored backup all that was paid, refunded and disputed since is posted, each once', async () => {
  const [first, second, third] = [await organization(), await organization(), await organization()]
  const plan = { key: 'small', paymentPrice: stripe.makePrice(2_000), name: 'Small' } as unknown as Plan
  const known = await paid(first)
  await due(clock.now())
  await clock.turn(HOUR_MS)
  await takeBackup(fresh.database)
  await clock.turn(HOUR_MS)
  // Since the backup: a payment of a new customer, one more of an old one, a refund, a dispute, and a subscription.
  const disputed = await paid(second, 900)
  await paid(first, 700)
  await refreshReversal(parts(), stripe.refund(known, 500))
  await refreshReversal(parts(), stripe.dispute(disputed))
  const opened = await openSubscriptionCheckout(
    { ...parts([plan]), readPrice: noPrices },
    { organizationId: third, planKey: null, ...urls },
  )
  stripe.pay(opened.checkout.id)
  const before = [await cents(first), await cents(second)]
  expect(before).toEqual([2_200, 0])
  await restoreBackup(fresh.database)
  expect([await cents(first), await cents(second)]).toEqual([2_000, 0])
  await clock.turn(DAY_MS)
  const found = await differences(parts([plan]))
  expect(kinds(found).toSorted()).toEqual([
    ['payment', true],
    ['payment', true],
    ['reversal', true],
    ['reversal', true],
    ['subscription', true],
  ])
  expect([await cents(first), await cents(second)]).toEqual(before)
  expect(await readSubscription(fresh.database, third)).toMatchObject({ planKey: 'small', status: 'active' })
  const frozen = await fresh.database.query('select organization_id as id, reason from organization_freezes')
  expect(frozen).toEqual([{ id: second, reason: 'dispute' }])
  expect(await differences(parts([plan]))).toEqual([])
})

test('without callbacks refunds and disputes are found every ten minutes, and when a process starts', async () => {
  const startedAtMs = clock.now()
  const id = await organization()
  const checkout = await paid(id)
  await clock.turn(SECOND_MS)
  expect(await due(startedAtMs)).toBe(true)
  expect(await reconciledUntil()).toBe(clock.now())
  stripe.refund(checkout, 300)
  expect(await due(startedAtMs)).toBe(false)
  expect(await cents(id)).toBe(2_000)
  await clock.turn(10 * MINUTE_MS)
  expect(await due(startedAtMs)).toBe(true)
  expect(await cents(id)).toBe(1_700)
  await clock.turn(MINUTE_MS)
  const dispute = stripe.dispute(checkout, { amountCents: 200 })
  expect(await due(clock.now())).toBe(true)
  expect(await cents(id)).toBe(1_500)
  stripe.decide(dispute, 'won')
  await clock.turn(10 * MINUTE_MS)
  await due(startedAtMs)
  expect(await cents(id)).toBe(1_700)
})

test('compared by ten processes at once, told of meanwhile, everything is posted once', async () => {
  const id = await organization()
  const checkouts = [await paidThere(id), await paid(id), await paid(id)]
  const refunds = checkouts.slice(1).map((checkout) => stripe.refund(checkout, 400))
  const told = refunds.flatMap((refund) => [refreshReversal(parts(), refund), refreshReversal(parts(), refund)])
  const compared = Array.from({ length: 10 }, () => differences())
  await Promise.all([...told, ...compared])
  await differences()
  expect(await cents(id)).toBe(5_200)
})

test('the last reconciled instant stays where Stripe can’t be asked, and it is tried again after a minute', async () => {
  const startedAtMs = clock.now()
  await due(startedAtMs)
  const before = await reconciledUntil()
  await clock.turn(10 * MINUTE_MS)
  const id = await organization()
  await paidThere(id)
  stripe.failures = 100
  expect(await due(startedAtMs)).toBe(true)
  expect(await reconciledUntil()).toBe(before)
  stripe.failures = 0
  expect(await due(startedAtMs)).toBe(false)
  await clock.turn(MINUTE_MS)
  expect(await due(startedAtMs)).toBe(true)
  expect(await reconciledUntil()).toBe(clock.now())
  expect(await cents(id)).toBe(2_000)
  expect(lines.join('')).not.toMatch(/sk_test|secret words/)
})

test('what is not this installation’s stays untouched', async () => {
  const id = await organization()
  const checkout = await paidThere(id)
  const customer = String(stripe.find(checkout)['customer'])
  for (const metadata of [{}, { tollgate_organization: crypto.randomUUID() }, { tollgate_organization: 'x' }]) {
    await fresh.database.query('truncate payments, payment_customers cascade')
    stripe.change(customer, { metadata })
    expect(await differences()).toEqual([])
  }
  expect(await fresh.database.query('select 1 from payments')).toEqual([])
})

test('a refund of a payment of ours that is not posted yet holds the last reconciled instant until it is', async () => {
  const id = await organization()
  const customer = String(stripe.find(await paid(id))['customer'])
  await due(0)
  const before = await reconciledUntil()
  const body = { status: 'succeeded', amount: 900, customer, metadata: { tollgate_payment: crypto.randomUUID() } }
  const intent = stripe.make('pi', 'payment_intent', body).id
  const refund = stripe.make('re', 'refund', { payment_intent: intent, amount: 900, status: 'succeeded' }).id
  await clock.turn(10 * MINUTE_MS)
  await due(0)
  expect(await reconciledUntil()).toBe(before)
  expect(await refreshReversal(parts(), refund)).toBe('superseded')
  const columns = 'id, organization_id, provider, kind, amount_cents, state, payment, created_at'
  await fresh.database.query(
    `insert into payments (${columns}) values (gen_random_uuid(), $1::uuid, 'stripe', 'top_up', 900, 'paid', $2, now())`,
    [id, intent],
  )
  await clock.turn(10 * MINUTE_MS)
  await due(0)
  expect(await reconciledUntil()).toBe(clock.now())
  expect(await cents(id)).toBe(1_100)
})

test('what Stripe does not have, has in another amount, or the ledger has in another sum is told, and not changed', async () => {
  const id = await organization()
  const [gone, changed, misposted] = [await paid(id, 500), await paid(id, 600), await paid(id, 700)]
  const refund = stripe.refund(changed, 100)
  await refreshReversal(parts(), refund)
  stripe.change(gone, { created: 0 })
  stripe.change(changed, { amount_total: 650 })
  stripe.change(refund, { created: 0 })
  await fresh.database.query(`update payments set amount_cents = 699 where checkout = $1`, [misposted])
  await clock.turn(MINUTE_MS)
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
  for (let count = 0; count < 105; count += 1) stripe.refund(checkout, 1)
  expect(await differences()).toHaveLength(105)
  expect(await cents(id)).toBe(1_895)
})

test('a checkout that was opened after the backup, and is paid hours after it was restored, is found', async () => {
  const [first, second] = [await organization(), await organization()]
  const plan = { key: 'small', paymentPrice: stripe.makePrice(2_000), name: 'Small' } as unknown as Plan
  const compare = async () => {
    await clock.turn(10 * MINUTE_MS)
    await reconcileDue(parts([plan]), 0, () => false)
  }
  await compare()
  await takeBackup(fresh.database)
  const { checkout } = await openTopUp(parts(), { organizationId: first, amountCents: 700, ...urls })
  const forPlan = { organizationId: second, planKey: null, ...urls }
  const opened = await openSubscriptionCheckout({ ...parts([plan]), readPrice: noPrices }, forPlan)
  await restoreBackup(fresh.database)
  for (let times = 0; times < 20; times += 1) await compare()
  stripe.pay(checkout ?? '')
  stripe.pay(opened.checkout.id)
  await compare()
  expect(await cents(first)).toBe(700)
  expect(await readSubscription(fresh.database, second)).toMatchObject({ planKey: 'small', status: 'active' })
  await clock.turn(10 * MINUTE_MS)
  await due(0)
  expect(await reconciledUntil()).toBe(clock.now())
})

test('a clock that was a day ahead for a while hides no refund', async () => {
  const id = await organization()
  const checkout = await paid(id)
  const ahead = { ...parts(), clock: { ...clock, now: () => clock.now() + DAY_MS } }
  await reconcileDue(ahead as ReturnType<typeof parts>, 0, () => false)
  await clock.turn(10 * MINUTE_MS)
  await due(0)
  expect(await reconciledUntil()).toBe(clock.now())
  stripe.refund(checkout, 500)
  await clock.turn(10 * MINUTE_MS)
  await due(0)
  expect(await cents(id)).toBe(1_500)
})

test('nor does one that was set right while no server ran', async () => {
  const id = await organization()
  const checkout = await paid(id)
  const ahead = { ...parts(), clock: { ...clock, now: () => clock.now() + DAY_MS } }
  await reconcileDue(ahead as ReturnType<typeof parts>, 0, () => false)
  stripe.refund(checkout, 500)
  await clock.turn(DAY_MS + 90 * MINUTE_MS)
  await due(0)
  expect(await cents(id)).toBe(1_500)
  expect(await reconciledUntil()).toBe(clock.now())
})
