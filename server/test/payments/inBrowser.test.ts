/** The local payment provider as a new user meets it: `npm start` without a settings file, and a real browser. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { type Chromium, openChromium, type Tab } from '../chromium.ts'
import { startServer, type TestServer } from '../server.ts'

// PostgreSQL and Chromium take a busy machine a while.
setDefaultTimeout(60_000)

const START = ['npm', 'start', '--silent', '--']
const MODEL = 'svc/sandbox'

let server: TestServer
let chromium: Chromium
let browser: Tab
beforeAll(async () => {
  ;[server, chromium] = await Promise.all([startServer({ command: START }), openChromium()])
  browser = await chromium.tab()
})
afterAll(async () => {
  await chromium?.close()
  await server?.remove()
})

type Json = Readonly<Record<string, unknown>>

async function ask(path: string, body?: Json): Promise<Json> {
  const headers = { Authorization: `Bearer ${server.firstKey}`, 'Content-Type': 'application/json' }
  const posted = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
  const response = await fetch(new URL(path, server.url), { headers, ...posted })
  const json = (await response.json()) as Json
  if (!response.ok) throw new Error(`${path}: ${response.status} ${JSON.stringify(json)}`)
  return json
}

const balanceCents = async () => Number((await ask('/v1/billing/balance'))['balance_cents'])
const call = () => ask('/v1/chat/completions', { model: MODEL, messages: [{ role: 'user', content: 'Hello' }] })

test('credit is bought: a card is declined, the next one pays, and the balance has the credit', async () => {
  const before = await balanceCents()
  const payment = await ask('/manage/v1/top-ups', { amount_cents: 1_500 })
  await browser.open(String(payment['checkout_url']))
  expect(await browser.text()).toContain('Test mode, no real money.')
  await browser.press('input[value=declines]')
  await browser.press('button', { loads: true })
  expect(await browser.text()).toContain('The card was declined.')
  await browser.press('input[value=succeeds]')
  await browser.press('button', { loads: true })
  expect(await browser.url()).toEndWith(`/payments/done?payment=${payment['id']}`)
  expect(await ask(`/manage/v1/payments/${payment['id']}`)).toMatchObject({ state: 'paid', amount_cents: 1_500 })
  expect((await balanceCents()) - before).toBe(1_500)
})

test('a subscription is bought, covers a call, and is cancelled in the portal to its period’s end', async () => {
  expect(await ask('/v1/billing/subscription')).toMatchObject({ subscribed: false, status: 'none' })
  const { checkout_url: checkout, plan } = await ask('/v1/billing/subscription/checkout', {})
  expect(plan).toMatchObject({ key: 'sandbox', price: { amount_cents: 2_000, currency: 'usd', interval: 'month' } })
  await browser.open(String(checkout))
  // The bank asks first.
  await browser.press('input[value=authenticates]')
  await browser.press('button', { loads: true })
  expect(await browser.text()).toContain('Do you confirm this payment?')
  await browser.press('button[value=confirm]', { loads: true })
  expect(await ask('/v1/billing/subscription')).toMatchObject({ subscribed: true, plan: { key: 'sandbox' } })

  const before = await balanceCents()
  const preflight = await ask(`/v1/inference/preflight?model=${MODEL}`)
  expect(preflight).toMatchObject({ verdict: 'ok', reason: 'plan_covered' })
  const { usage } = await call()
  const { prompt_tokens: input, completion_tokens: output } = usage as Record<string, number>
  const shown = await ask('/v1/billing/subscription')
  expect(shown).toMatchObject({ usage: { weighted_input_tokens: input, weighted_output_tokens: output } })
  expect(await balanceCents()).toBe(before)

  const { portal_url: portal } = await ask('/v1/billing/subscription/portal', {})
  await browser.open(String(portal))
  expect(await browser.text()).toContain('It is renewed on')
  await browser.press('button[value=cancel]', { loads: true })
  expect(await browser.text()).toContain('It ends on')
  expect(await ask('/v1/billing/subscription')).toMatchObject({ subscribed: true, cancel_at_period_end: true })
  await call()
  expect(await balanceCents()).toBe(before)
})
