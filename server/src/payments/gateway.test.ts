/** Top-ups through the whole gateway, with the local payment provider: its pages are asked as a browser asks them. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../test/acceptance/ask.ts'
import { makeKey, type TestKey } from '../../test/customer.ts'
import { openGateway } from '../../test/gateway.ts'
import { Validator } from '../../test/packages.ts'
import { openPage, payAt } from '../../test/paymentPages.ts'
import { until } from '../../test/until.ts'
import { systemRandom } from '../infra/random.ts'
import { uuidV7 } from '../lib/ids.ts'

const SETTINGS = `
public_url: https://tollgate.test
payments: { provider: local, top_up_min_cents: 500, top_up_max_cents: 50000 }
rate_limit: { requests_per_second: 10000, burst: 100000 }
new_account_rate_limit: { requests_per_second: 1, burst: 3 }
`
const TOP_UPS = '/manage/v1/top-ups'
const PAYMENTS = '/manage/v1/payments'

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS })
})
afterAll(() => gateway.close())

interface Shown {
  readonly id: string
  readonly state: string
  readonly reason: string | null
  readonly checkout_url: string
  readonly paid_at: string | null
  readonly receipt_url: string | null
}

async function topUp(key: TestKey, body: object = {}, headers: Record<string, string> = {}): Promise<Shown> {
  const answer = await gateway.ask({ path: TOP_UPS, key, body: { amount_cents: 1_234, ...body }, headers })
  expect(answer.status).toBe(201)
  return answer.json as Shown
}

const payment = async (key: TestKey, id: string) =>
  (await gateway.ask({ path: `${PAYMENTS}/${id}`, key })).json as Shown

const balance = async (key: TestKey) => {
  const { json } = await gateway.ask({ path: '/billing/balance', key })
  return (json as { balance_cents: number }).balance_cents
}

const LOCAL_PAGES = 'https://tollgate.test/payments/local'

test.each([
  ['checkouts/lcs_%00'],
  ['receipts/lpy_%00'],
  ['portals/lpo_%00'],
  ['checkouts/lcs_%e2%80%8b'],
  [`receipts/lpy_${'0'.repeat(31)}%00`],
  [`portals/lpo_${'0'.repeat(33)}`],
])('no page of the local payment provider has the id of %s: 404, for a form too', async (path) => {
  expect((await openPage(gateway, `${LOCAL_PAGES}/${path}`)).status).toBe(404)
  if (path.startsWith('receipts')) return
  expect((await payAt(gateway, `${LOCAL_PAGES}/${path}`, { card: 'succeeds' })).status).toBe(404)
})

test.each([
  ['[null]'],
  ['[{"name":"card","value":{"toString":null}}]'],
  ['[{"name":{"toString":null},"value":"succeeds"}]'],
  ['{"card":"succeeds"}'],
])('JSON that is no form chooses no card: %s is 422', async (body) => {
  const { checkout_url: url } = await topUp(await gateway.customer({ cents: 0 }))
  const init = { method: 'POST', body, headers: { 'Content-Type': 'application/json' } }
  expect((await gateway.send(new URL(url).pathname, init)).status).toBe(422)
})

test('a top-up is paid on the page of its checkout, is credited once, and the person goes where the caller said', async () => {
  const key = await gateway.customer({ cents: 100 })
  const opened = await topUp(key, { success_url: 'https://shop.example/thanks', cancel_url: 'https://shop.example/no' })
  expect(opened).toMatchObject({ kind: 'top_up', amount_cents: 1_234, state: 'open', reason: null, receipt_url: null })
  expect(opened.checkout_url).toStartWith('https://tollgate.test/payments/local/checkouts/')
  const page = await openPage(gateway, opened.checkout_url)
  expect(page.status).toBe(200)
  expect(await page.text()).toContain('Test mode, no real money.')
  expect(page.headers.get('Content-Security-Policy')).toContain("form-action 'self' https://shop.example")
  const paid = await payAt(gateway, opened.checkout_url, { card: 'succeeds' })
  expect([paid.status, paid.headers.get('Location')]).toEqual([303, 'https://shop.example/thanks'])
  const shown = await payment(key, opened.id)
  expect(shown).toMatchObject({ state: 'paid', checkout_url: null, amount_cents: 1_234 })
  expect(shown.paid_at).not.toBeNull()
  expect(shown.receipt_url).toStartWith('https://tollgate.test/payments/local/receipts/lpy_')
  const receipt = await openPage(gateway, shown.receipt_url ?? '')
  expect([receipt.status, await receipt.text()]).toEqual([
    200,
    expect.stringMatching(/Test mode, no real money.*\$12\.34/s),
  ])
  expect((await openPage(gateway, 'https://tollgate.test/payments/local/receipts/lpy_0')).status).toBe(404)
  expect(await balance(key)).toBe(1_334)
  await payAt(gateway, opened.checkout_url, { card: 'succeeds' })
  expect(await balance(key)).toBe(1_334)
  const entries = await gateway.database.query<{ source: string; kind: string }>(
    'select source, kind from ledger_entries where organization_id = $1 order by posted_at desc limit 1',
    [key.organizationId],
  )
  expect(entries[0]).toEqual({ source: expect.stringMatching(/^payment:local:lpy_[0-9a-f]{32}$/), kind: 'credit' })
})

test('a declined card and a refused authentication credit nothing; another try on the same page does', async () => {
  const key = await gateway.customer({ cents: 0 })
  const { id, checkout_url: url } = await topUp(key)
  expect((await payAt(gateway, url, { card: 'declines' })).status).toBe(402)
  expect(await (await payAt(gateway, url, { card: 'authenticates' })).text()).toContain('Do you confirm this payment?')
  expect((await payAt(gateway, url, { authentication: 'refuse' })).status).toBe(402)
  expect((await payment(key, id)).state).toBe('open')
  expect(await balance(key)).toBe(0)
  await payAt(gateway, url, { card: 'authenticates', save: 'yes' })
  const confirmed = await payAt(gateway, url, { authentication: 'confirm' })
  expect([confirmed.status, confirmed.headers.get('Location')]).toEqual([
    303,
    `https://tollgate.test/payments/done?payment=${id}`,
  ])
  expect(await balance(key)).toBe(1_234)
})

test.each([
  ['done', 'Thank you', 'The payment is on its way.'],
  ['cancelled', 'Nothing was paid', 'You have left the payment.'],
  ['returned', 'Done', 'Changes to the subscription take effect in a moment.'],
])('the page /payments/%s tells a person, without a key, that all is well', async (name, title, says) => {
  const page = await openPage(gateway, `https://tollgate.test/payments/${name}`)
  expect([page.status, page.headers.get('Content-Type')]).toEqual([200, 'text/html; charset=utf-8'])
  const text = await page.text()
  expect(text).toContain(`<h1>${title}</h1>`)
  expect(text).toContain(`${says} You can close this page.`)
})

test('the page after a payment says that the credit is in the balance, once it is', async () => {
  const key = await gateway.customer({ cents: 0 })
  const { id, checkout_url: url } = await topUp(key)
  const done = `https://tollgate.test/payments/done?payment=${id}`
  const says = async (address: string) => /<p>([^<]*)<\/p>/.exec(await (await openPage(gateway, address)).text())?.[1]
  const onItsWay = 'The payment is on its way. You can close this page.'
  expect(await says(done)).toBe(onItsWay)
  const paid = await payAt(gateway, url, { card: 'succeeds' })
  expect([paid.status, paid.headers.get('Location')]).toEqual([303, done])
  expect(await says(done)).toBe('The payment is made: its credit is in the balance. You can close this page.')
  for (const other of [uuidV7(0, systemRandom()), 'x', '']) {
    expect(await says(`https://tollgate.test/payments/done?payment=${other}`)).toBe(onItsWay)
  }
})

test('the pages where people end who cancel, and who leave the portal, are those of this server', async () => {
  const key = await gateway.customer({ cents: 0, admin: true })
  const { checkout_url: url } = await topUp(key)
  expect(await (await openPage(gateway, url)).text()).toContain('href="https://tollgate.test/payments/cancelled"')
  const portal = await gateway.ask({ method: 'POST', path: '/billing/subscription/portal', key, body: {} })
  const { portal_url: address } = portal.json as { portal_url: string }
  expect(await (await openPage(gateway, address)).text()).toContain('href="https://tollgate.test/payments/returned"')
})

test('each start with the local payment provider says so in the log, and no other start', async () => {
  const isSaid = (line: string) => line.includes('the local payment provider is on: test mode, no real money')
  const said = gateway.logs.filter(isSaid)
  expect(said.map((line) => JSON.parse(line))).toMatchObject([{ level: 'warn' }])
  const again = await openGateway({ settings: SETTINGS, beside: gateway })
  expect(again.logs.filter(isSaid)).toHaveLength(1)
  await again.close()
  const without = await openGateway({ settings: SETTINGS.replace(/^payments:.*$/m, ''), beside: gateway })
  expect(without.logs.filter(isSaid)).toEqual([])
  await without.close()
})

test('a newer top-up expires the older one, which can’t be paid any more; one that was paid stays credited (B9)', async () => {
  const key = await gateway.customer({ cents: 0 })
  const paid = await topUp(key)
  await payAt(gateway, paid.checkout_url, { card: 'succeeds' })
  const older = await topUp(key)
  const newer = await topUp(key)
  expect(await payment(key, older.id)).toMatchObject({ state: 'expired', reason: expect.stringContaining('newer') })
  expect((await payAt(gateway, older.checkout_url, { card: 'succeeds' })).status).toBe(410)
  expect(await payment(key, paid.id)).toMatchObject({ state: 'paid' })
  await payAt(gateway, newer.checkout_url, { card: 'succeeds' })
  expect(await balance(key)).toBe(2_468)
})

test('an organization may open thirty checkouts within an hour', async () => {
  const key = await gateway.customer({ cents: 0 })
  for (let count = 0; count < 30; count += 1) await topUp(key)
  const { status, json, headers } = await gateway.ask({ path: TOP_UPS, key, body: { amount_cents: 500 } })
  expect({ status, json }).toMatchObject({ status: 429, json: { code: 'rate_limited' } })
  const waitSeconds = Number(headers.get('Retry-After'))
  expect(waitSeconds).toBeGreaterThan(3_500)
  expect(waitSeconds).toBeLessThanOrEqual(3_601)
})

test('it may open thirty in an hour also where all are asked for at once, and payments by auto-pay do not count', async () => {
  const key = await gateway.customer({ cents: 0 })
  await gateway.database.query(
    `insert into payments (id, organization_id, provider, kind, amount_cents, state, created_at)
     select ids.id, $1::uuid, 'local', 'auto_pay', 500, 'failed', $2::timestamptz
     from unnest(string_to_array($3, ',')::uuid[]) as ids (id)`,
    [
      key.organizationId,
      new Date(),
      Array.from({ length: 30 }, () =>
        uuidV7(Date.now(), (length) => crypto.getRandomValues(new Uint8Array(length))),
      ).join(),
    ],
  )
  for (let count = 0; count < 22; count += 1) await topUp(key)
  const ask = () => gateway.ask({ path: TOP_UPS, key, body: { amount_cents: 500 } })
  const statuses = (await Promise.all(Array.from({ length: 16 }, ask))).map(({ status }) => status)
  expect(statuses.toSorted()).toEqual([...Array(8).fill(201), ...Array(8).fill(429)])
})

test("a key that is no admin's pays, but neither its request nor the page saves a payment method for auto-pay", async () => {
  const key = await gateway.customer({ cents: 0, admin: true })
  const saving = await topUp(key, { save_payment_method: true })
  await payAt(gateway, saving.checkout_url, { card: 'declines_later', save: 'yes' })
  const saved = () =>
    gateway.database.query<{ card: string }>(
      `select o.body->>'card' as card from local_payment_objects o join payment_customers c on o.body->>'customer' = c.customer
       where c.organization_id = $1::uuid and o.id like 'lsc_%'`,
      [key.organizationId],
    )
  expect(await saved()).toEqual([{ card: 'declines_later' }])
  const member = await makeKey(gateway.database, key.organizationId)
  const body = { amount_cents: 500, save_payment_method: true }
  const { status, json } = await gateway.ask({ path: TOP_UPS, key: member, body })
  expect({ status, json }).toMatchObject({ status: 403, json: { code: 'insufficient_scope' } })
  const plain = await topUp(member, { save_payment_method: false })
  expect(await (await openPage(gateway, plain.checkout_url)).text()).not.toContain('name="save"')
  await payAt(gateway, plain.checkout_url, { card: 'succeeds', save: 'yes' })
  expect(await payment(member, plain.id)).toMatchObject({ state: 'paid' })
  expect(await saved()).toEqual([{ card: 'declines_later' }])
})

test('the same Idempotency-Key gives the same checkout', async () => {
  const key = await gateway.customer({ cents: 0 })
  const headers = { 'Idempotency-Key': crypto.randomUUID() }
  const first = await topUp(key, {}, headers)
  expect(await topUp(key, {}, headers)).toEqual(first)
  expect((await gateway.ask({ path: PAYMENTS, key })).json).toMatchObject({ data: [{ id: first.id }] })
})

test('the first payment ends a new account at once, in the other process too (K2)', async () => {
  const other = await openGateway({ settings: SETTINGS, beside: gateway })
  const key = await gateway.customer({ cents: 0, standing: 'new' })
  const statusThere = async () => (await other.get(key, '/billing/balance')).status
  for (let call = 0; call < 3; call += 1) expect(await statusThere()).toBe(200)
  expect(await statusThere()).toBe(429)
  const { checkout_url: url } = await topUp(key)
  await payAt(gateway, url, { card: 'succeeds' })
  const limitThere = async () => (await other.get(key, '/billing/balance')).headers.get('RateLimit-Limit')
  await until(async () => (await limitThere()) !== '3')
  for (let call = 0; call < 20; call += 1) expect(await statusThere()).toBe(200)
  await other.close()
})

test.each([
  ['below the least', { amount_cents: 499 }, 'amount_cents'],
  ['above the most', { amount_cents: 50_001 }, 'amount_cents'],
  ['a fraction', { amount_cents: 500.5 }, 'amount_cents'],
  ['no amount', {}, 'amount_cents'],
  ['plain http', { amount_cents: 500, success_url: 'http://shop.example/' }, 'success_url'],
  ['a script', { amount_cents: 500, cancel_url: 'javascript:alert(1)' }, 'cancel_url'],
  ['user info', { amount_cents: 500, cancel_url: 'https://me:pw@shop.example/' }, 'cancel_url'],
  ['a host that ends a directive', { amount_cents: 500, success_url: 'https://a;sandbox' }, 'success_url'],
  ['a host that ends a header', { amount_cents: 500, cancel_url: 'https://a,b/' }, 'cancel_url'],
  ['another field', { amount_cents: 500, currency: 'eur' }, 'currency'],
])('%s is refused with 422', async (_, body, field) => {
  const key = await gateway.customer()
  const { status, json } = await gateway.ask({ path: TOP_UPS, key, body })
  expect({ status, json }).toMatchObject({ status: 422, json: { code: 'validation_failed' } })
  expect((json as { detail: string }).detail).toContain(field)
})

test('a person may be sent to this machine over plain http', async () => {
  const key = await gateway.customer()
  await topUp(key, { success_url: 'http://localhost:3000/done', cancel_url: 'http://[::1]:3000/' })
})

test('payments are of one organization, in pages, and need the scopes of billing', async () => {
  const key = await gateway.customer()
  const stranger = await gateway.customer()
  const made = [await topUp(key), await topUp(key), await topUp(key)].map(({ id }) => id).reverse()
  const first = (await gateway.ask({ path: `${PAYMENTS}?limit=2`, key })).json as {
    data: Shown[]
    next_cursor: string
  }
  const rest = (await gateway.ask({ path: `${PAYMENTS}?cursor=${first.next_cursor}`, key })).json as {
    data: Shown[]
    next_cursor: string | null
  }
  expect([...first.data, ...rest.data].map(({ id }) => id)).toEqual(made)
  expect(rest.next_cursor).toBeNull()
  expect((await gateway.ask({ path: `${PAYMENTS}?cursor=x`, key })).status).toBe(422)
  for (const id of [made[0], crypto.randomUUID(), 'x']) {
    const { status, json } = await gateway.ask({ path: `${PAYMENTS}/${id}`, key: stranger })
    expect({ status, json }).toMatchObject({ status: 404, json: { code: 'not_found' } })
  }
  const reader = await makeKey(gateway.database, key.organizationId, { scopes: 'billing:read' })
  const caller = await makeKey(gateway.database, key.organizationId, { scopes: 'serverless:write' })
  expect((await gateway.ask({ path: `${PAYMENTS}/${made[0]}`, key: reader })).status).toBe(200)
  expect((await gateway.ask({ path: TOP_UPS, key: reader, body: { amount_cents: 500 } })).status).toBe(403)
  expect((await gateway.ask({ path: PAYMENTS, key: caller })).status).toBe(403)
  expect((await gateway.ask({ path: PAYMENTS })).status).toBe(401)
})

test('a checkout that nobody has is 404, and links come from the settings, not from the Host header', async () => {
  expect((await openPage(gateway, 'https://tollgate.test/payments/local/checkouts/lcs_0')).status).toBe(404)
  expect((await payAt(gateway, 'https://tollgate.test/payments/local/checkouts/lcs_0', { card: 'x' })).status).toBe(422)
  const key = await gateway.customer()
  const made = await topUp(key, {}, { Host: 'evil.example' })
  expect(made.checkout_url).toStartWith('https://tollgate.test/')
})

test('the description of the management interface is valid, and has what is served', async () => {
  expect(await new Validator().validate({ ...gateway.managed })).toEqual({ valid: true })
  expect(Object.keys(gateway.managed.paths)).toEqual(
    expect.arrayContaining(['/top-ups', '/payments', '/payments/{id}']),
  )
})

test('where payments are off, every path of them is 404 and in no description', async () => {
  const off = await openAskedGateway({ beside: gateway })
  const key = await off.customer()
  for (const path of [PAYMENTS, `${PAYMENTS}/x`]) {
    expect((await off.get(key, path)).status).toBe(404)
  }
  expect(await (await off.post(key, TOP_UPS, { amount_cents: 500 })).json()).toMatchObject({ code: 'not_found' })
  expect(Object.keys(off.managed.paths)).not.toContain('/top-ups')
  expect((await openPage(off, 'https://tollgate.test/payments/local/checkouts/x')).status).toBe(404)
  await off.close()
})

test('with the local payment provider a person subscribes, calls are covered, and the portal cancels', async () => {
  const quota = 'input_tokens_monthly: 1000, output_tokens_monthly: 1000, weekly_tokens: 1000'
  const plans = `plans: [{ key: small, name: Small, ${quota}, payment_price: local_2000_month }]\n`
  const own = await openAskedGateway({ settings: SETTINGS + plans, beside: gateway })
  const key = await own.customer({ cents: 0, admin: true })
  const subscription = async () =>
    (await own.ask({ path: '/billing/subscription', key })).json as Record<string, unknown>
  const price = { amount_cents: 2_000, currency: 'usd', interval: 'month', interval_count: 1 }
  const { json } = await own.ask({ method: 'POST', path: '/billing/subscription/checkout', key })
  expect(json).toMatchObject({ plan: { key: 'small', price } })
  const { checkout_url: url } = json as { checkout_url: string }
  const checkout = await (await openPage(own, url)).text()
  expect([checkout.includes('$20.00 a month'), checkout.includes('name="save"')]).toEqual([true, false])
  expect((await payAt(own, url, { card: 'succeeds' })).status).toBe(303)
  expect(await subscription()).toMatchObject({ subscribed: true, status: 'active', plan: { key: 'small', price } })
  const portal = (await own.ask({ method: 'POST', path: '/billing/subscription/portal', key, body: {} })).json
  const { portal_url: portalUrl } = portal as { portal_url: string }
  const page = await (await openPage(own, portalUrl)).text()
  expect(page).toContain('<p>$20.00 a month. It is renewed on ')
  const id = /name="subscription" value="([^"]+)"/.exec(page)?.[1] ?? ''
  expect((await payAt(own, portalUrl, { subscription: id, action: 'cancel' })).status).toBe(200)
  expect(await subscription()).toMatchObject({ subscribed: true, cancel_at_period_end: true })
  await payAt(own, portalUrl, { subscription: id, action: 'resume' })
  expect(await subscription()).toMatchObject({ cancel_at_period_end: false })
  // Another customer's portal changes nothing of this one's.
  const stranger = await own.customer({ cents: 0, admin: true })
  await own.ask({ path: TOP_UPS, key: stranger, body: { amount_cents: 500 } })
  const theirs = (await own.ask({ method: 'POST', path: '/billing/subscription/portal', key: stranger, body: {} })).json
  await payAt(own, (theirs as { portal_url: string }).portal_url, { subscription: id, action: 'cancel' })
  expect(await subscription()).toMatchObject({ cancel_at_period_end: false })
  await own.close()
})
