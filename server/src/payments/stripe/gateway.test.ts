/** Top-ups through the whole gateway with Stripe's official package, against a server that stands in for Stripe. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import type { TestKey } from '../../../test/customer.ts'
import { type Gateway, openGateway } from '../../../test/gateway.ts'
import { Stripe } from '../../../test/packages.ts'
import {
  openStripeServer,
  STRIPE_KEY,
  STRIPE_WEBHOOK_SECRET,
  type StripeServer,
  signStripe,
} from '../../../test/stripeServer.ts'
import { systemClock } from '../../infra/clock.ts'
import { DAY_MS, SECOND_MS } from '../../lib/time.ts'
import { STRIPE_API_VERSION } from './client.ts'

let stripe: StripeServer
let gateway: Gateway
/** The wall's clock, as many milliseconds ahead. */
let aheadMs = 0
const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }

const settings = (url: string, more = '') => `
public_url: https://tollgate.test
payments: { provider: stripe, secret_key_env: STRIPE_KEY, webhook_secret_env: STRIPE_WEBHOOK_SECRET, api_url: "${url}"${more} }
`
const environment = { STRIPE_KEY, STRIPE_WEBHOOK_SECRET }

beforeAll(async () => {
  stripe = await openStripeServer()
  gateway = await openGateway({ settings: settings(stripe.url), environment, clock })
})
afterAll(async () => {
  await gateway.close()
  await stripe.close()
})

interface Shown {
  readonly id: string
  readonly state: string
  readonly checkout_url: string
}

async function topUp(key: TestKey, at: Gateway = gateway) {
  const response = await at.post(key, '/manage/v1/top-ups', { amount_cents: 2_000 })
  const shown = (await response.json()) as Shown
  return { status: response.status, shown, session: shown.checkout_url?.split('/').at(-1) ?? '' }
}

const shownNow = async (key: TestKey, id: string) =>
  (await (await gateway.get(key, `/manage/v1/payments/${id}`)).json()) as Shown

async function balance(key: TestKey): Promise<number> {
  const shown = (await (await gateway.get(key, '/billing/balance')).json()) as { balance_cents: number }
  return shown.balance_cents
}

async function send({ body, headers }: { body: string | Uint8Array<ArrayBuffer>; headers: Record<string, string> }) {
  return (await gateway.send('/payments/stripe/events', { method: 'POST', body, headers })).status
}

const COMPLETED = 'checkout.session.completed'

test('a top-up is a checkout at Stripe, made with an idempotency key in the pinned version of its API', async () => {
  const key = await gateway.customer({ cents: 0 })
  const { status, shown, session } = await topUp(key)
  expect(status).toBe(201)
  expect(shown).toMatchObject({ state: 'open', checkout_url: `https://checkout.stripe.test/c/pay/${session}` })
  expect(stripe.find(session)).toMatchObject({
    amount_total: 2_000,
    currency: 'usd',
    client_reference_id: shown.id,
    metadata: { tollgate_payment: shown.id },
    success_url: `https://tollgate.test/payments/done?payment=${shown.id}`,
    cancel_url: 'https://tollgate.test/payments/cancelled',
    automatic_tax: { enabled: false },
  })
  const made = stripe.asked.find(({ idempotencyKey }) => idempotencyKey === `tollgate:checkout:${shown.id}`)
  expect(made).toMatchObject({ path: '/v1/checkout/sessions', version: STRIPE_API_VERSION })
})

test('callbacks that come twice, together and days late credit once; what stands in them never counts', async () => {
  const key = await gateway.customer({ cents: 0 })
  const { shown, session } = await topUp(key)
  // A callback that says "paid" of what is not.
  expect(await send(stripe.event(COMPLETED, session, clock.now()))).toBe(200)
  expect(await balance(key)).toBe(0)
  stripe.pay(session)
  const event = stripe.event(COMPLETED, session, clock.now(), 'evt_same')
  const statuses = await Promise.all([send(event), send(event), send(stripe.event(COMPLETED, session, clock.now()))])
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(0)
  for (const status of statuses) expect([200, 503]).toContain(status)
  expect(await balance(key)).toBe(2_000)
  expect(await shownNow(key, shown.id)).toMatchObject({
    state: 'paid',
    receipt_url: expect.stringContaining('https://pay.stripe.test/receipts/pi_'),
  })
  aheadMs += 5 * DAY_MS
  expect(await send({ ...event, headers: signStripe(event.body, clock.now()) })).toBe(200)
  expect(await send(stripe.event('checkout.session.expired', session, clock.now()))).toBe(200)
  expect(await balance(key)).toBe(2_000)
  expect((await shownNow(key, shown.id)).state).toBe('paid')
})

test('a callback that was applied before asks Stripe nothing', async () => {
  const key = await gateway.customer({ cents: 0 })
  const { session } = await topUp(key)
  stripe.pay(session)
  const event = stripe.event(COMPLETED, session, clock.now())
  expect(await send(event)).toBe(200)
  const before = stripe.asked.length
  expect(await send(event)).toBe(200)
  expect(stripe.asked.length).toBe(before)
})

test('a callback that is forged, changed by one byte, or more than 300 s old or ahead is refused with 400 and changes nothing', async () => {
  const key = await gateway.customer({ cents: 0 })
  const { session } = await topUp(key)
  stripe.pay(session)
  const event = stripe.event(COMPLETED, session, clock.now())
  const bytes = Buffer.from(event.body)
  const changed = new Uint8Array(bytes)
  changed[10] = (changed[10] ?? 0) ^ 1
  const before = stripe.asked.length
  expect(await send({ ...event, headers: { 'Content-Type': 'application/json' } })).toBe(400)
  expect(await send({ ...event, headers: signStripe(event.body, clock.now(), 'whsec_other') })).toBe(400)
  expect(await send({ ...event, body: changed })).toBe(400)
  expect(await send(stripe.event(COMPLETED, session, clock.now() - 301 * SECOND_MS))).toBe(400)
  expect(await send(stripe.event(COMPLETED, session, clock.now() + 302 * SECOND_MS))).toBe(400)
  expect(stripe.asked.length).toBe(before)
  expect(await balance(key)).toBe(0)
  expect(await send(stripe.event(COMPLETED, session, clock.now() - 299 * SECOND_MS))).toBe(200)
  expect(await balance(key)).toBe(2_000)
  expect(await send(stripe.event(COMPLETED, session, clock.now() + 299 * SECOND_MS))).toBe(200)
})

test('the package itself signs callbacks that are taken, and ones about other objects or nothing of ours change nothing', async () => {
  const body = JSON.stringify({
    id: 'evt_x',
    type: 'x',
    data: { object: { id: 'cs_none', object: 'checkout.session' } },
  })
  const others = [
    body,
    JSON.stringify({ id: 'evt_y', type: 'y', data: { object: { id: 'in_1', object: 'invoice' } } }),
    JSON.stringify({ id: 'evt_z', object: 'event', type: 'z', data: {} }),
    // No ids: PostgreSQL takes no text with these characters.
    body.replace('cs_none', 'cs_\\u0000'),
    body.replace('cs_none', 'cs_\\ud800'),
    body.replace('evt_x', 'evt_\\u0000'),
  ]
  for (const payload of others) {
    const made = { payload, secret: STRIPE_WEBHOOK_SECRET, timestamp: Math.floor(clock.now() / 1_000) }
    const header = await new Stripe('sk_test').webhooks.generateTestHeaderStringAsync(made)
    expect(await send({ body: payload, headers: { 'Stripe-Signature': header } })).toBe(200)
  }
})

test.each([
  ['with a wrong signature', '{}', 'whsec_other', /^The signature of this callback is wrong/],
  ['that is signed and no JSON', '{"id":', STRIPE_WEBHOOK_SECRET, /^This callback is signed, but its body is no JSON/],
])('a callback %s is 400 `invalid_request` in envelope A, with words of its own', async (_, body, secret, says) => {
  const headers = signStripe(body, clock.now(), secret)
  const response = await gateway.send('/payments/stripe/events', { method: 'POST', body, headers })
  expect(response.headers.get('Content-Type')).toBe('application/problem+json')
  const refused = { status: 400, code: 'invalid_request', detail: expect.stringMatching(says) }
  expect(await response.json()).toMatchObject(refused)
})

test.each<[header: string, headers: () => Record<string, string>, says: RegExp]>([
  ['no header', () => ({}), /^The signature of this callback is wrong/],
  ['an old header', () => signStripe('{}', 0), /^The signature of this callback is wrong/],
  ['a header of now', () => signStripe('{}', clock.now()), /^The body of this callback is not valid UTF-8/],
])('a mebibyte that is no UTF-8, with %s, is 400', async (_, headers, says) => {
  const body = new Uint8Array(1024 * 1024).fill(0xff)
  const response = await gateway.send('/payments/stripe/events', { method: 'POST', body, headers: headers() })
  expect([response.status, await response.json()]).toMatchObject([400, { detail: expect.stringMatching(says) }])
})

test('a callback of more than a mebibyte is 413, before any signature is made', async () => {
  const body = 'x'.repeat(1024 * 1024 + 1)
  expect(await send({ body, headers: signStripe(body, clock.now()) })).toBe(413)
})

test('while Stripe fails, the callback is answered 503 and comes again; then it is applied', async () => {
  const key = await gateway.customer({ cents: 0 })
  const { session } = await topUp(key)
  stripe.pay(session)
  const event = stripe.event(COMPLETED, session, clock.now())
  stripe.failures = 2
  expect(await send(event)).toBe(503)
  expect(await balance(key)).toBe(0)
  expect(await send(event)).toBe(200)
  expect(await balance(key)).toBe(2_000)
  expect(gateway.logs.join('\n')).toContain('Stripe refused')
  expect(gateway.logs.join('\n')).not.toMatch(/secret words|sk_test|whsec_/)
})

test('a checkout whose answer is lost on the way is opened once', async () => {
  const key = await gateway.customer({ cents: 0 })
  await topUp(key)
  stripe.failures = -1
  const { status, shown } = await topUp(key)
  expect(status).toBe(201)
  const made = stripe.asked.filter(({ idempotencyKey }) => idempotencyKey === `tollgate:checkout:${shown.id}`)
  expect(made).toHaveLength(2)
})

test('money that comes later is processing until it comes, and failed where it does not', async () => {
  const key = await gateway.customer({ cents: 0 })
  const come = await topUp(key)
  stripe.pay(come.session, { delayed: true })
  await send(stripe.event(COMPLETED, come.session, clock.now()))
  expect(await shownNow(key, come.shown.id)).toMatchObject({ state: 'processing', checkout_url: null })
  const lost = await topUp(key)
  stripe.pay(lost.session, { delayed: true })
  await send(stripe.event(COMPLETED, lost.session, clock.now()))
  expect(await balance(key)).toBe(0)
  stripe.settle(come.session, true)
  stripe.settle(lost.session, false)
  await send(stripe.event('checkout.session.async_payment_succeeded', come.session, clock.now()))
  await send(stripe.event('checkout.session.async_payment_failed', lost.session, clock.now()))
  expect((await shownNow(key, come.shown.id)).state).toBe('paid')
  expect((await shownNow(key, lost.shown.id)).state).toBe('failed')
  expect(await balance(key)).toBe(2_000)
})

test('with tax, the credit is the amount before it', async () => {
  const taxed = await openGateway({
    settings: settings(stripe.url, ', automatic_tax: true'),
    environment,
    clock,
    beside: gateway,
  })
  const key = await gateway.customer({ cents: 0 })
  const { session } = await topUp(key, taxed)
  expect(stripe.find(session)).toMatchObject({ automatic_tax: { enabled: true } })
  stripe.pay(session, { taxCents: 380 })
  await send(stripe.event(COMPLETED, session, clock.now()))
  expect(await balance(key)).toBe(2_000)
  await taxed.close()
})

test('an account that settles in another currency is refused at start', async () => {
  stripe.currency = 'eur'
  const opening = openGateway({ settings: settings(stripe.url), environment, beside: gateway })
  await expect(opening).rejects.toThrow('settles in EUR')
  stripe.currency = 'usd'
})

test('without callbacks a payment is found by asking', async () => {
  const turned = new TurnedClock(clock.now())
  const silent = await openGateway({
    settings: settings(stripe.url).replace(' webhook_secret_env: STRIPE_WEBHOOK_SECRET,', ''),
    environment,
    clock: turned,
  })
  const key = await silent.customer({ cents: 0 })
  const { session } = await topUp(key, silent)
  expect((await silent.send('/payments/stripe/events', { method: 'POST', body: '{}' })).status).toBe(404)
  stripe.pay(session)
  const isCredited = async () => (await silent.database.query('select 1 from ledger_entries')).length === 1
  for (let turn = 0; turn < 200 && !(await isCredited()); turn += 1) await turned.turn(SECOND_MS)
  expect(await isCredited()).toBe(true)
  const closing = silent.close()
  for (let turn = 0; turn < 20; turn += 1) await turned.turn(SECOND_MS)
  await closing
})
