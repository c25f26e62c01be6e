/** Subscriptions and auto-pay at a payment provider that the settings have no more, on the whole gateway. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../test/acceptance/ask.ts'
import { openGateway } from '../../../test/gateway.ts'
import { payAt } from '../../../test/paymentPages.ts'
import { until } from '../../../test/until.ts'
import { loadSettings } from '../../catalog/load.ts'
import type { SettingsSource } from '../../catalog/watch.ts'

const PAYMENTS = 'payments: { provider: local }\n'
const PLAN =
  'plans: [{ key: p, name: P, input_tokens_monthly: 1, output_tokens_monthly: 1, weekly_tokens: 1, payment_price: local_2000_month }]\n'

let text = `${PAYMENTS}${PLAN}`
/** A file that has changed since it was read at the start. */
const watched: SettingsSource = {
  fileName: 'tollgate.yaml',
  stamp: async () => text,
  load: () => Promise.reject(new Error('only a start reads it in one go')),
  reload: async () => loadSettings(text, { environment: {}, directory: '/', fileExists: () => true }),
}

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: text, watched })
  const key = await gateway.customer({ cents: 0, admin: true })
  const { json } = await gateway.ask({ method: 'POST', path: '/billing/subscription/checkout', key })
  await payAt(gateway, (json as { checkout_url: string }).checkout_url, { card: 'succeeds' })
  const topUp = { amount_cents: 500, save_payment_method: true }
  const begun = await gateway.ask({ path: '/manage/v1/top-ups', key, body: topUp })
  await payAt(gateway, (begun.json as { checkout_url: string }).checkout_url, { card: 'succeeds', save: 'yes' })
  const terms = { enabled: true, threshold_cents: 1, amount_cents: 500 }
  expect((await gateway.ask({ method: 'PUT', path: '/manage/v1/auto-pay', key, body: terms })).status).toBe(200)
})
afterAll(() => gateway.close())

const reports = ({ logs }: { readonly logs: readonly string[] }) =>
  logs.map((line) => JSON.parse(line)).filter(({ msg }) => String(msg).includes("no section 'payments'"))

const FOUND = { level: 'error', subscriptions: 1, auto_pay: 1, payments: 0 }

test('a start without the section payments reports them; one with it does not', async () => {
  const beside = await openGateway({ settings: PLAN, beside: gateway })
  expect(reports(beside)).toEqual([
    expect.objectContaining({ ...FOUND, msg: expect.stringMatching(/Put the section back.*start again$/) }),
  ])
  await beside.close()
  expect(reports(gateway)).toEqual([])
})

test('a start with another payment provider reports them', async () => {
  const environment = { KEY: 'sk_test_x' }
  const stripe = 'payments: { provider: stripe, secret_key_env: KEY, api_url: "http://127.0.0.1:9" }\n'
  const settings = `${stripe}${PLAN.replace('local_2000_month', 'price_1')}`
  const beside = await openGateway({ settings, environment, beside: gateway })
  const lines = beside.logs.map((line) => JSON.parse(line))
  expect(lines.filter(({ msg }) => String(msg).includes('name another one'))).toEqual([
    expect.objectContaining({ ...FOUND, msg: expect.stringContaining("another one, 'stripe'") }),
  ])
  await beside.close()
})

test('a changed file without the section reports them once it is taken up; one with it does not', async () => {
  text = `${PAYMENTS}# changed\n`
  expect(await gateway.app.catalog.reload()).toBe(true)
  expect(reports(gateway)).toEqual([])
  text = PLAN
  expect(await gateway.app.catalog.reload()).toBe(true)
  await until(async () => reports(gateway).length > 0)
  expect(reports(gateway)).toEqual([
    expect.objectContaining({ ...FOUND, msg: expect.stringContaining('from the next start on nobody can pay') }),
  ])
})

test('a server with which nobody ever paid reports nothing', async () => {
  const unpaid = await openGateway({ settings: PLAN })
  expect(reports(unpaid)).toEqual([])
  await unpaid.close()
})
