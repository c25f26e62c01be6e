/** Refunds and disputes through the whole gateway with Stripe's official package, against a server that stands in for Stripe. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../test/acceptance/ask.ts'
import type { TestKey } from '../../../test/customer.ts'
import {
  openStripeServer,
  STRIPE_KEY,
  STRIPE_WEBHOOK_SECRET,
  type StripeServer,
  signStripe,
} from '../../../test/stripeServer.ts'
import { adjustBalance } from '../../billing/ledger/adjust.ts'
import { systemClock } from '../../infra/clock.ts'
import { createLog } from '../../infra/log.ts'
import { systemRandom } from '../../infra/random.ts'
import { Secret } from '../../lib/secret.ts'
import { DAY_MS, HOUR_MS } from '../../lib/time.ts'
import { listFreezes, unfreezeOrganization } from '../freezes/freezes.ts'
import { createStripe } from '../stripe/client.ts'
import { createStripeProvider } from '../stripe/provider.ts'
import { sweepDue } from '../topUps/sweep.ts'
import { refreshReversal } from './refresh.ts'

let stripe: StripeServer
let gateway: AskedGateway
let price: string
/** The wall's clock, as many milliseconds ahead. */
let aheadMs = 0
const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }
const log = createLog('debug', { write: () => {} })
const quota = 'input_tokens_monthly: 1000, output_tokens_monthly: 1000, weekly_tokens: 1000'

const settings = () => `
public_url: https://tollgate.test
payments: { provider: stripe, secret_key_env: STRIPE_KEY, webhook_secret_env: STRIPE_WEBHOOK_SECRET, api_url: "${stripe.url}" }
rate_limit: { requests_per_second: 10000, burst: 100000 }
plans:
  - { key: small, name: Small, ${quota}, payment_price: ${price} }
`

beforeAll(async () => {
  stripe = await openStripeServer()
  stripe.nowMs = clock.now
  price = stripe.makePrice(2_000)
  gateway = await openAskedGateway({ settings: settings(), environment: { STRIPE_KEY, STRIPE_WEBHOOK_SECRET }, clock })
})
afterAll(async () => {
  await gateway.close()
  await stripe.close()
})
beforeEach(() => {
  stripe.failures = 0
})

interface Shown {
  readonly id: string
  readonly state: string
  readonly reversed_cents: number
  readonly checkout_url: string
}

/** A customer with one payment of $20. */
async function paid(taxCents = 0, key?: TestKey) {
  const made = key ?? (await gateway.customer({ cents: 0, admin: true }))
  const shown = (await gateway.ask({ path: '/manage/v1/top-ups', key: made, body: { amount_cents: 2_000 } }))
    .json as Shown
  const session = shown.checkout_url.split('/').at(-1) ?? ''
  stripe.pay(session, { taxCents })
  expect(await tell('checkout.session.completed', session)).toBe(200)
  return { key: made, session, id: shown.id }
}

function send({ body, headers }: { body: string; headers: Record<string, string> }) {
  const request = new Request('http://gateway.test/payments/stripe/events', { method: 'POST', body, headers })
  return gateway.app.handle(request, { address: '127.0.0.1', setIdleTimeout: () => {} })
}
const tell = async (type: string, id: string) => (await send(stripe.event(type, id, clock.now()))).status

const balance = async (key: TestKey) =>
  ((await gateway.ask({ path: '/billing/balance', key })).json as { balance_cents: number }).balance_cents
const reversed = async (key: TestKey, id: string) =>
  ((await gateway.ask({ path: `/manage/v1/payments/${id}`, key })).json as Shown).reversed_cents

/** The ledger without the payments themselves, in cents, oldest first. */
async function entries({ organizationId }: TestKey) {
  const rows = await gateway.database.query<{ kind: string; source: string; cents: bigint }>(
    `select kind, source, amount_microcents / 1000000 as cents from ledger_entries
     where organization_id = $1 and kind <> 'credit' order by posted_at, id`,
    [organizationId],
  )
  return rows.map(({ kind, source, cents }) => [kind, source, Number(cents)] as const)
}

const reasons = async ({ organizationId }: TestKey) =>
  (await listFreezes(gateway.database, organizationId)).map(({ reason }) => reason)

const parts = () => {
  const client = createStripe({ secretKey: new Secret(STRIPE_KEY), apiUrl: stripe.url })
  const provider = createStripeProvider({ stripe: client, log, automaticTax: false })
  const plans = () => gateway.app.catalog.current().plans
  return { database: gateway.database, clock, random: systemRandom(), log, provider, plans }
}

/** Another process that sweeps until nothing is due. */
async function sweep(): Promise<void> {
  const dependencies = parts()
  const refresh = (id: string) => refreshReversal(dependencies, id)
  while ((await sweepDue(dependencies, 'payment_reversals', () => false, refresh)) > 0);
}

test('a refund at Stripe takes its credit back, once, however often and late it is told of', async () => {
  const { key, session, id } = await paid()
  const refund = stripe.refund(session, 500)
  const event = stripe.event('refund.created', refund, clock.now())
  const statuses = await Promise.all([
    send(event),
    send(event),
    send(stripe.event('refund.updated', refund, clock.now())),
  ])
  for (const { status } of statuses) expect([200, 503]).toContain(status)
  expect(await tell('refund.updated', refund)).toBe(200)
  expect(await balance(key)).toBe(1_500)
  expect(await reversed(key, id)).toBe(500)
  aheadMs += 6 * DAY_MS
  expect((await send({ ...event, headers: signStripe(event.body, clock.now()) })).status).toBe(200)
  expect(await tell('refund.created', refund)).toBe(200)
  expect(await entries(key)).toEqual([['payment_refund', `payment_refund:stripe:${refund}`, -500]])
})

test('a refund that failed comes back, also when it is first heard of then', async () => {
  const told = await paid()
  const refund = stripe.refund(told.session)
  await tell('refund.created', refund)
  expect(await balance(told.key)).toBe(0)
  stripe.failRefund(refund)
  await tell('refund.failed', refund)
  expect(await balance(told.key)).toBe(2_000)
  expect(await reversed(told.key, told.id)).toBe(0)
  const late = await paid()
  const unheard = stripe.refund(late.session)
  stripe.failRefund(unheard)
  await tell('refund.failed', unheard)
  await tell('refund.created', unheard)
  expect(await balance(late.key)).toBe(2_000)
  expect((await entries(late.key)).map(([, , cents]) => cents).toSorted((a, b) => a - b)).toEqual([-2_000, 2_000])
})

test('a balance goes below zero by a refund of credit that is spent', async () => {
  const { key, session } = await paid()
  const spent = { organizationId: key.organizationId, amountMicrocents: -1_900_000_000n }
  const posted = { source: `adjustment:${crypto.randomUUID()}`, note: 'spent', atMs: clock.now() }
  await adjustBalance(gateway.database, systemRandom(), { ...spent, ...posted })
  await tell('refund.created', stripe.refund(session))
  expect(await balance(key)).toBe(-1_900)
})

test('with tax, the same part of the credit goes back, and never more than the credit (B8)', async () => {
  const { key, session, id } = await paid(380)
  for (const [cents, left] of [
    [1_190, 1_000],
    [1, 999],
    [1, 998],
    [1_188, 0],
  ] as const) {
    await tell('refund.created', stripe.refund(session, cents))
    expect(await balance(key)).toBe(left)
  }
  expect(await reversed(key, id)).toBe(2_000)
  // The bank takes the same money once more.
  const dispute = stripe.dispute(session)
  await tell('charge.dispute.created', dispute)
  expect(await balance(key)).toBe(0)
  stripe.decide(dispute, 'won')
  await tell('charge.dispute.closed', dispute)
  expect(await balance(key)).toBe(0)
  expect((await entries(key)).reduce((sum, [, , cents]) => sum + cents, 0)).toBe(-2_000)
})

test('a dispute takes the credit and freezes; won, both come back; told in any order, the state is what Stripe says', async () => {
  const { key, session } = await paid()
  const dispute = stripe.dispute(session)
  const opened = stripe.event('charge.dispute.created', dispute, clock.now())
  expect((await send(opened)).status).toBe(200)
  expect(await balance(key)).toBe(0)
  expect(await reasons(key)).toEqual(['dispute'])
  const refused = await gateway.ask({ path: '/manage/v1/top-ups', key, body: { amount_cents: 500 } })
  expect(refused).toMatchObject({ status: 403, json: { code: 'org-frozen' } })
  const checkout = await gateway.ask({ method: 'POST', path: '/billing/subscription/checkout', key, body: {} })
  expect(checkout).toMatchObject({ status: 403, json: { code: 'org-frozen' } })
  // A subscription can be cancelled all the same (B11).
  const portal = await gateway.ask({ method: 'POST', path: '/billing/subscription/portal', key, body: {} })
  expect(portal.status).toBe(200)
  stripe.decide(dispute, 'won')
  await tell('charge.dispute.closed', dispute)
  // The first callback comes again, days later.
  aheadMs += 3 * DAY_MS
  await tell('charge.dispute.created', dispute)
  expect(await balance(key)).toBe(2_000)
  expect(await reasons(key)).toEqual([])
  const moved = (stripe.find(dispute)['balance_transactions'] as { id: string }[]).map(({ id }) => id)
  expect(await entries(key)).toEqual([
    ['payment_dispute', `payment_dispute:stripe:${moved[0]}`, -2_000],
    ['payment_dispute', `payment_dispute:stripe:${moved[1]}`, 2_000],
  ])
})

test('a dispute that was lost keeps the organization frozen until the operator says otherwise, for good', async () => {
  const { key, session } = await paid()
  const other = await paid(0, key)
  const [first, second] = [stripe.dispute(session), stripe.dispute(other.session)]
  for (const id of [first, second]) await tell('charge.dispute.created', id)
  stripe.decide(first, 'won')
  stripe.decide(second, 'lost')
  for (const id of [first, second]) await tell('charge.dispute.closed', id)
  expect(await reasons(key)).toEqual(['dispute'])
  expect(await balance(key)).toBe(2_000)
  await unfreezeOrganization(gateway.database, key.organizationId, 'dispute')
  await tell('charge.dispute.updated', second)
  expect(await reasons(key)).toEqual([])
})

test('an inquiry moves nothing and freezes nobody, until it becomes a dispute', async () => {
  const { key, session } = await paid()
  const dispute = stripe.dispute(session, { isInquiry: true })
  await tell('charge.dispute.created', dispute)
  expect([await balance(key), await reasons(key)]).toEqual([2_000, []])
  stripe.decide(dispute, 'needs_response')
  // Nobody tells of it: what is open is retrieved.
  aheadMs += HOUR_MS
  await sweep()
  expect([await balance(key), await reasons(key)]).toEqual([0, ['dispute']])
})

test('a payment that was begun before the freeze is still credited (B11)', async () => {
  const { key, session } = await paid()
  const begun = (await gateway.ask({ path: '/manage/v1/top-ups', key, body: { amount_cents: 700 } })).json as Shown
  await tell('charge.dispute.created', stripe.dispute(session))
  const late = begun.checkout_url.split('/').at(-1) ?? ''
  stripe.pay(late)
  expect(await tell('checkout.session.completed', late)).toBe(200)
  expect(await balance(key)).toBe(700)
})

test('a refund of a subscription posts nothing; a dispute of one cancels it at once and freezes (B8)', async () => {
  const key = await gateway.customer({ cents: 0, admin: true })
  const { json } = await gateway.ask({ method: 'POST', path: '/billing/subscription/checkout', key, body: {} })
  const session = String((json as { session_id: string }).session_id)
  stripe.pay(session)
  const subscription = stripe.subscriptionOf(session)
  await tell('customer.subscription.created', subscription)
  await tell('refund.created', stripe.refund(session, 500))
  expect(await entries(key)).toEqual([])
  const inquiry = stripe.dispute(session, { isInquiry: true })
  await tell('charge.dispute.created', inquiry)
  expect(stripe.find(subscription)['status']).toBe('active')
  stripe.decide(inquiry, 'needs_response')
  stripe.failures = 4
  expect(await tell('charge.dispute.updated', inquiry)).toBe(503)
  stripe.failures = 0
  expect(await tell('charge.dispute.updated', inquiry)).toBe(200)
  expect(stripe.find(subscription)['status']).toBe('canceled')
  const shown = (await gateway.ask({ path: '/billing/subscription', key })).json
  expect(shown).toMatchObject({ subscribed: false, status: 'canceled' })
  expect([await entries(key), await balance(key), await reasons(key)]).toEqual([[], 0, ['dispute']])
})

test('a refund that is told of before its payment is: the payment is credited first', async () => {
  const key = await gateway.customer({ cents: 0 })
  const shown = (await gateway.ask({ path: '/manage/v1/top-ups', key, body: { amount_cents: 2_000 } })).json as Shown
  const session = shown.checkout_url.split('/').at(-1) ?? ''
  stripe.pay(session)
  const refund = stripe.refund(session, 800)
  expect(await tell('refund.created', refund)).toBe(200)
  expect(await tell('checkout.session.completed', session)).toBe(200)
  expect(await balance(key)).toBe(1_200)
})

test('a refund of somebody else’s payment is none of ours, and a broken one is asked for again', async () => {
  const { key, session } = await paid()
  const foreign = stripe.make('pi', 'payment_intent', { status: 'succeeded', amount: 900 })
  const refund = stripe.make('re', 'refund', { payment_intent: foreign.id, amount: 900, status: 'succeeded' })
  expect(await tell('refund.created', refund.id)).toBe(200)
  const ours = stripe.refund(session, 100)
  stripe.failures = 3
  expect(await tell('refund.created', ours)).toBe(503)
  expect(await balance(key)).toBe(2_000)
  stripe.failures = 0
  expect(await tell('refund.created', ours)).toBe(200)
  expect(await balance(key)).toBe(1_900)
})
