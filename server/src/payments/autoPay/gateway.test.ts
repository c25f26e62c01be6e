/** Auto-pay through the whole gateway, with the local payment provider: calls on one side, a mail server on the other. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../test/acceptance/ask.ts'
import { directed, SETTINGS } from '../../../test/acceptance/catalog.ts'
import { makeKey, type TestKey } from '../../../test/customer.ts'
import { mailNotices } from '../../../test/mailNotices.ts'
import { type MailServer, openMailServer } from '../../../test/mailServer.ts'
import { openPage, payAt } from '../../../test/paymentPages.ts'
import { until } from '../../../test/until.ts'
import { systemRandom } from '../../infra/random.ts'
import { uuidV7 } from '../../lib/ids.ts'
import { insertAutoPayment } from './store.ts'

const AUTO_PAY = '/manage/v1/auto-pay'

let mails: MailServer
let gateway: AskedGateway
beforeAll(async () => {
  mails = await openMailServer()
  const settings = `${SETTINGS}
public_url: https://tollgate.test
payments: { provider: local, top_up_min_cents: 500, top_up_max_cents: 50000 }
smtp: { host: 127.0.0.1, port: ${mails.port}, tls: none, from: billing@tollgate.test }
`
  gateway = await openAskedGateway({ settings })
})
afterAll(async () => {
  await gateway.close()
  await mails.close()
})

/** A customer who pays $5 with a card that the checkout keeps. */
async function customer(card: 'succeeds' | 'declines_later' | 'authenticates', cents = 500): Promise<TestKey> {
  const key = await gateway.customer({ cents, admin: true })
  const body = { amount_cents: 500, save_payment_method: true }
  const { json } = await gateway.ask({ path: '/manage/v1/top-ups', key, body })
  const { checkout_url: url } = json as { checkout_url: string }
  await payAt(gateway, url, { card, save: 'yes' })
  if (card === 'authenticates') await payAt(gateway, url, { authentication: 'confirm' })
  return key
}

const put = (key: TestKey, body: object) => gateway.ask({ method: 'PUT', path: AUTO_PAY, key, body })
const shown = async (key: TestKey) => (await gateway.ask({ path: AUTO_PAY, key })).json
const balance = async (key: TestKey) =>
  (await gateway.ask({ path: '/billing/balance', key })).json as Record<string, unknown>

/** A call of exactly so many cents. */
const spend = (key: TestKey, cents: number) =>
  gateway.ask({
    path: '/chat/completions',
    key,
    body: directed(`prompt_tokens=20 tokens=${cents - 20}`, { model: 'svc/dear', max_tokens: cents - 20 }),
  })

/** The page of the receipt of the newest payment, which stands in for a payment provider's. */
async function receiptOf(key: TestKey): Promise<string> {
  const { json } = await gateway.ask({ path: '/manage/v1/payments', key })
  const [newest] = (json as { data: { receipt_url: string | null }[] }).data
  const page = await openPage(gateway, newest?.receipt_url ?? '')
  expect(page.status).toBe(200)
  return await page.text()
}

test('a saved card pays the agreed amount when calls bring the balance below the threshold, and the balance shows the terms', async () => {
  const key = await customer('succeeds', 1_000)
  expect(await shown(key)).toEqual({
    enabled: false,
    threshold_cents: null,
    amount_cents: null,
    attempts_per_day: 3,
    last_failure: null,
    next_attempt_at: null,
  })
  expect(await balance(key)).toMatchObject({ auto_pay_enabled: false, auto_pay_threshold_cents: 0 })
  const { status, json } = await put(key, { enabled: true, threshold_cents: 1_200, amount_cents: 700 })
  expect(status).toBe(200)
  expect(json).toMatchObject({ enabled: true, threshold_cents: 1_200, amount_cents: 700, next_attempt_at: null })
  const terms = { auto_pay_enabled: true, auto_pay_threshold_cents: 1_200, auto_pay_amount_cents: 700 }
  expect(await balance(key)).toMatchObject({ balance_cents: 1_500, ...terms })
  expect((await spend(key, 400)).status).toBe(200)
  expect((await spend(key, 50)).status).toBe(200)
  await until(async () => (await balance(key))['balance_cents'] === 1_500 - 450 + 700)
  expect((await gateway.ask({ path: '/manage/v1/payments', key })).json).toMatchObject({
    data: [{ kind: 'auto_pay', state: 'paid', amount_cents: 700, checkout_url: null }, { kind: 'top_up' }],
  })
  expect(await receiptOf(key)).toContain('$7.00')
  // Terms that a request leaves out stay as they were. The balance says that auto-pay is off.
  expect((await put(key, { enabled: false })).json).toMatchObject({ enabled: false, threshold_cents: 1_200 })
  expect(await balance(key)).toMatchObject({ auto_pay_enabled: false, auto_pay_amount_cents: 0 })
  expect((await put(key, { enabled: true })).json).toMatchObject({ enabled: true, amount_cents: 700 })
})

test('without a saved payment method it can not be switched on: 409; a card that is only paid with is not saved', async () => {
  const key = await gateway.customer({ cents: 0, admin: true })
  const wanted = { enabled: true, threshold_cents: 100, amount_cents: 500 }
  const refused = { status: 409, json: { code: 'payment_method_missing' } }
  expect(await put(key, wanted)).toMatchObject(refused)
  const { json } = await gateway.ask({ path: '/manage/v1/top-ups', key, body: { amount_cents: 500 } })
  const { checkout_url: url } = json as { checkout_url: string }
  expect(await (await openPage(gateway, url)).text()).not.toContain('value="yes" checked')
  await payAt(gateway, url, { card: 'succeeds' })
  expect(await put(key, wanted)).toMatchObject(refused)
  expect((await put(key, { ...wanted, enabled: false })).status).toBe(200)
})

test('terms that are sent before auto-pay is first used are kept, each of them', async () => {
  const key = await customer('succeeds')
  const first = await put(key, { enabled: false, threshold_cents: 300, attempts_per_day: 5 })
  expect(first.json).toMatchObject({ enabled: false, threshold_cents: 300, amount_cents: null, attempts_per_day: 5 })
  expect(await put(key, { enabled: true })).toMatchObject({ status: 422, json: { code: 'validation_failed' } })
  expect(await balance(key)).toMatchObject({ auto_pay_enabled: false, auto_pay_threshold_cents: 0 })
  await put(key, { enabled: false, amount_cents: 700 })
  const kept = { threshold_cents: 300, amount_cents: 700, attempts_per_day: 5 }
  expect(await shown(key)).toMatchObject({ enabled: false, ...kept })
  expect((await put(key, { enabled: true })).json).toMatchObject({ enabled: true, ...kept })
})

test.each([
  ['no word on whether it is on', { threshold_cents: 100, amount_cents: 500 }, 'enabled'],
  ['a first time without terms', { enabled: true }, 'threshold_cents'],
  ['an amount below the least top-up', { enabled: true, threshold_cents: 1, amount_cents: 499 }, 'amount_cents'],
  ['an amount above the most', { enabled: true, threshold_cents: 1, amount_cents: 50_001 }, 'amount_cents'],
  ['a threshold below 0', { enabled: true, threshold_cents: -1, amount_cents: 500 }, 'threshold_cents'],
  ['no attempt a day', { enabled: true, attempts_per_day: 0 }, 'attempts_per_day'],
  ['eleven attempts a day', { enabled: true, attempts_per_day: 11 }, 'attempts_per_day'],
  ['another field', { enabled: true, currency: 'eur' }, 'currency'],
])('%s is refused with 422', async (_, body, field) => {
  const key = await customer('succeeds')
  const { status, json } = await put(key, body)
  expect({ status, json }).toMatchObject({ status: 422, json: { code: 'validation_failed' } })
  expect((json as { detail: string }).detail).toContain(field)
})

test("it needs an admin's key, and shows nothing of another organization", async () => {
  const key = await customer('succeeds', 1_000)
  await put(key, { enabled: true, threshold_cents: 100, amount_cents: 500 })
  const member = await makeKey(gateway.database, key.organizationId)
  for (const method of ['GET', 'PUT']) {
    const refused = await gateway.ask({
      method,
      path: AUTO_PAY,
      key: member,
      ...(method === 'PUT' ? { body: {} } : {}),
    })
    expect({ status: refused.status, json: refused.json }).toMatchObject({
      status: 403,
      json: { code: 'insufficient_scope' },
    })
  }
  const stranger = await gateway.customer({ admin: true })
  expect(await shown(stranger)).toMatchObject({ enabled: false, threshold_cents: null })
})

test('a bank that asks for the person is mailed at once, with a link; paid there, the new card is used', async () => {
  const key = await customer('authenticates')
  await mailNotices(gateway.database, key.organizationId, ['owner@example.com'])
  const seen = mails.mails.length
  await put(key, { enabled: true, threshold_cents: 3_000, amount_cents: 700 })
  await mails.arrived(seen + 1)
  const mail = mails.mails.find(({ to }) => to === 'owner@example.com')
  expect(mail?.text).toContain('The bank asks the person who has the card to confirm it.')
  expect(await shown(key)).toMatchObject({
    enabled: true,
    last_failure: { reason: 'The bank asks the person who has the card to confirm the payment.' },
    next_attempt_at: expect.any(String),
  })
  const link = /https:\/\/tollgate\.test\/payments\/local\/checkouts\/\S+/.exec(mail?.text ?? '')?.[0] ?? ''
  expect(await (await openPage(gateway, link)).text()).toContain('value="yes" checked')
  await payAt(gateway, link, { card: 'succeeds', save: 'yes' })
  // 500, the top-up's 500, the link's 700; auto-pay goes on from there.
  await until(async () => (await balance(key))['balance_cents'] === 500 + 500 + 700 + 2 * 700)
  expect(await shown(key)).toMatchObject({ enabled: true, last_failure: null, next_attempt_at: null })
})

test('a payment by auto-pay whose outcome is not known yet is processing: there is no page where a person pays it', async () => {
  const key = await customer('succeeds')
  const attempt = {
    id: uuidV7(Date.now(), systemRandom()),
    amountCents: 700,
    method: 'succeeds',
    createdAtMs: Date.now(),
  }
  await gateway.database.transaction((tx) =>
    insertAutoPayment(tx, 'local', { ...attempt, organizationId: key.organizationId, state: 'opening' }),
  )
  expect((await gateway.ask({ path: `/manage/v1/payments/${attempt.id}`, key })).json).toMatchObject({
    kind: 'auto_pay',
    state: 'processing',
    checkout_url: null,
  })
})

test('a card that is declined later is shown with the next attempt an hour away', async () => {
  const key = await customer('declines_later')
  await put(key, { enabled: true, threshold_cents: 2_000, amount_cents: 700 })
  await until(async () => ((await shown(key)) as { last_failure: unknown }).last_failure !== null)
  const { last_failure: failure, next_attempt_at: next } = (await shown(key)) as {
    last_failure: { at: string; reason: string }
    next_attempt_at: string
  }
  expect(failure.reason).toBe('The saved card was declined.')
  expect(Date.parse(next) - Date.parse(failure.at)).toBe(3_600_000)
  expect(await balance(key)).toMatchObject({ balance_cents: 1_000 })
})
