/** Requests to Stripe, and the server of the tests that stands in for Stripe, against Stripe's own description: by stripe-mock. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createLog } from '../../src/infra/log.ts'
import { Secret } from '../../src/lib/secret.ts'
import type { NewAutoPayment } from '../../src/payments/provider/autoPayment.ts'
import { createStripe } from '../../src/payments/stripe/client.ts'
import { createStripeProvider, type StripeProvider } from '../../src/payments/stripe/provider.ts'
import { saveStripeMethod } from '../stripeOffSession.ts'
import { openStripeServer, STRIPE_KEY, type StripeServer } from '../stripeServer.ts'
import { HAS_GO, openStripeMock, type StripeMock } from './stripeMock.ts'
import { type Schema, shapeFaults } from './stripeSpec.ts'

const URLS = { successUrl: 'https://t.test/done', cancelUrl: 'https://t.test/no' }
const WINDOW = { fromMs: 0, untilMs: Date.UTC(2100, 0) }
const log = createLog('debug', { write: () => {} })

/** Fields that the server keeps for itself, and answers with besides. */
const OWN: Readonly<Record<string, readonly string[]>> = {
  'checkout.session': ['price', 'setup_future_usage', 'intent_metadata'],
  invoice: ['percent_off'],
  invoiceitem: ['created'],
}

let mock: StripeMock
let stripe: StripeServer
let between: { readonly url: string; stop(): Promise<void> }
/** The requests that Stripe would have refused, and the places where answers of the server differ from Stripe's. */
let refused: string[] = []
let differs: string[] = []
const asked = new Set<string>()

beforeAll(async () => {
  if (!HAS_GO) return
  mock = await openStripeMock()
  stripe = await openStripeServer()
  between = openBetween()
}, 300_000)
afterAll(async () => {
  if (!HAS_GO) return
  await between.stop()
  await stripe.close()
  await mock.close()
})

/** Sends each request to both: the server of the tests answers it, and stripe-mock says whether Stripe would take it. */
function openBetween() {
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const body = request.method === 'POST' ? await request.text() : undefined
      const send = (to: string) =>
        fetch(`${to}${pathname}${search}`, {
          method: request.method,
          headers: request.headers,
          ...(body === undefined ? {} : { body }),
        })
      const [answer, said] = await Promise.all([send(stripe.url), send(mock.url)])
      const name = `${request.method} ${template(pathname)}`
      asked.add(name)
      if (said.status !== 200) refused.push(`${name}: ${said.status} ${await said.text()}`)
      const json: unknown = await answer.json()
      if (answer.status === 200)
        differs.push(...faultsOf(request.method, pathname, json).map((each) => `${name}: ${each}`))
      return Response.json(json, { status: answer.status, headers: answer.headers })
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) }
}

/** The path of the description that a path is one of, such as `/v1/refunds/{refund}`. */
function template(path: string): string {
  const parts = path.split('/')
  const fits = (each: string) => {
    const named = each.split('/')
    return named.length === parts.length && named.every((part, at) => part.startsWith('{') || part === parts[at])
  }
  const found = Object.keys(mock.spec.paths).filter(fits)
  return found.toSorted((a, b) => a.split('{').length - b.split('{').length)[0] ?? path
}

function faultsOf(method: string, path: string, json: unknown): string[] {
  const operation = mock.spec.paths[template(path)]?.[method.toLowerCase()]
  const schema = operation?.responses['200']?.content?.['application/json'].schema
  if (schema === undefined) return ['Stripe has no such path']
  const isOwn = (object: unknown, field: string) =>
    OWN[String((object as { object?: string }).object)]?.includes(field) === true
  return shapeFaults(mock.spec.components.schemas, schema as Schema, json, isOwn)
}

function providerAt(url: string, automaticTax: boolean): StripeProvider {
  const client = createStripe({ secretKey: new Secret(STRIPE_KEY), apiUrl: url })
  return createStripeProvider({ stripe: client, log, automaticTax })
}

/** Does everything that Tollgate asks Stripe for, once. */
async function doEverything(provider: StripeProvider): Promise<void> {
  const customer = await provider.createCustomer(crypto.randomUUID())
  const open = (savesMethod: boolean) =>
    provider.openCheckout({
      paymentId: crypto.randomUUID(),
      customer,
      amountCents: 2_000,
      description: 'Credit',
      savesMethod,
      ...URLS,
    })
  const [saved, other, late] = [await open(true), await open(false), await open(false)]
  await provider.retrieveCheckout(saved.id)
  stripe.pay(saved.id, { taxCents: 380 })
  stripe.pay(other.id, { delayed: true })
  const facts = await provider.retrieveCheckout(saved.id)
  await provider.retrieveCheckout(other.id)
  stripe.settle(other.id, false)
  await provider.retrieveCheckout(other.id)
  await provider.expireCheckout(late.id)
  await provider.retrieveCheckout(late.id)
  const payment = facts.state === 'paid' ? facts.payment : ''
  const method = (facts.state === 'paid' && facts.savedMethod) || ''
  expect(await provider.saveMethod(customer, method)).toBe(true)
  expect(await provider.savedMethod(customer)).toBe(method)
  const wanted = { customer, method, amountCents: 700, description: 'Credit', createdAtMs: Date.now() }
  await provider.payOffSession({ paymentId: crypto.randomUUID(), ...wanted })
  await giveUpEach(provider, wanted)
  await provider.listPayments(customer, 0)
  await Array.fromAsync(provider.listAutoPayments(WINDOW))
  const refund = await provider.refund({ payment, amountCents: 100, request: crypto.randomUUID() })
  await provider.retrieveReversal(refund ?? '')
  const dispute = stripe.dispute(saved.id)
  for (const status of ['needs_response', 'won'] as const) {
    stripe.decide(dispute, status)
    await provider.retrieveReversal(dispute)
  }
  await provider.retrieveOwner(payment)
  await doSubscription(provider, customer)
  await Array.fromAsync(provider.listCheckouts(WINDOW))
  await Array.fromAsync(provider.listReversals(WINDOW))
  expect(await Array.fromAsync(provider.listEvents(WINDOW))).not.toEqual([])
  expect(await provider.settlementCurrency()).toBe('usd')
}

/** Ends payments that are not paid: one whose bank asks for the person, and with tax an invoice that is a draft. */
async function giveUpEach(provider: StripeProvider, wanted: Omit<NewAutoPayment, 'paymentId'>): Promise<void> {
  const asking = saveStripeMethod(stripe, wanted.customer, 'asks')
  const asked = await provider.payOffSession({ ...wanted, method: asking, paymentId: crypto.randomUUID() })
  expect(asked.state).toBe('authentication')
  const begun = { ...wanted, paymentId: crypto.randomUUID() }
  stripe.onRequest = ({ path }) =>
    path.endsWith('/finalize') ? { status: 400, json: { error: { type: 'invalid_request_error' } } } : undefined
  await provider.payOffSession(begun)
  stripe.onRequest = () => undefined
  await provider.giveUp(begun)
}

async function doSubscription(provider: StripeProvider, customer: string): Promise<void> {
  const price = stripe.makePrice(2_000)
  expect(await provider.readPrice(price)).toMatchObject({ amountCents: 2_000, interval: 'month' })
  const { id } = await provider.openSubscriptionCheckout({ id: crypto.randomUUID(), customer, price, ...URLS })
  await provider.retrieveSubscriptionCheckout(id)
  stripe.pay(id)
  const begun = await provider.retrieveSubscriptionCheckout(id)
  const subscription = begun.state === 'complete' ? begun.subscription : ''
  expect(await provider.retrieveSubscription(subscription)).toMatchObject({ status: 'active', isPaid: true })
  const paid = stripe.all('invoice_payment').at(-1)?.['payment'] as { payment_intent: string } | undefined
  await provider.retrieveOwner(paid?.payment_intent ?? '')
  await provider.openPortal(customer, 'https://t.test/back')
  await provider.refundSubscription(subscription)
  await provider.cancelSubscription(subscription)
}

test.skipIf(!HAS_GO).each([false, true])(
  'Stripe takes every request of ours, and has every field of the server that stands in for it; with tax: %p',
  async (automaticTax) => {
    ;[refused, differs] = [[], []]
    await doEverything(providerAt(between.url, automaticTax))
    expect(refused).toEqual([])
    expect([...new Set(differs)]).toEqual([])
    expect(asked.size).toBeGreaterThan(20)
  },
  60_000,
)

test.skipIf(!HAS_GO)('a parameter or a field that Stripe does not have is found', async () => {
  const headers = { Authorization: `Bearer ${STRIPE_KEY}`, 'Content-Type': 'application/x-www-form-urlencoded' }
  const ask = (body: string) => fetch(`${mock.url}/v1/refunds`, { method: 'POST', headers, body })
  expect((await ask('payment_intent=pi_1')).status).toBe(200)
  expect((await ask('payment_intent=pi_1&colour=red')).status).toBe(400)
  const refund = { id: 're_1', object: 'refund', amount: 5, status: 'succeeded', charge: null }
  expect(faultsOf('GET', '/v1/refunds/re_1', refund)).toEqual([])
  const wrong = { ...refund, object: 'charge', amount: '5', colour: 'red' }
  expect(faultsOf('GET', '/v1/refunds/re_1', wrong)).toHaveLength(3)
})

test.skipIf(!HAS_GO)(
  "objects as stripe-mock has them are read as Stripe's",
  async () => {
    const provider = providerAt(mock.url, false)
    const customer = await provider.createCustomer(crypto.randomUUID())
    expect(customer).toStartWith('cus_')
    expect((await provider.retrieveSubscription('sub_1')).customer).not.toBe('')
    expect(await provider.readPrice('price_1')).toMatchObject({ currency: 'usd' })
    expect((await provider.retrieveCheckout('cs_test_1')).state).toBeString()
    const refund = await provider.refund({ payment: 'pi_1', amountCents: 100, request: crypto.randomUUID() })
    // Of no payment that Tollgate could know: those of stripe-mock name none.
    expect(await provider.retrieveReversal(refund ?? '')).toBeNull()
    await provider.retrieveReversal('du_1')
    expect(await provider.openPortal(customer, 'https://t.test/back')).toStartWith('https://')
    for await (const { checkout } of provider.listCheckouts(WINDOW)) expect(checkout).toStartWith('cs_')
    for await (const { createdAtMs } of provider.listReversals(WINDOW)) expect(createdAtMs).toBePositive()
    expect(await provider.listPayments(customer, 0)).toEqual([])
  },
  60_000,
)
