/** The bounds on what one customer has asked of the payment provider, whatever its requests come to. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../test/acceptance/ask.ts'
import { SETTINGS } from '../../../test/acceptance/catalog.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { makeKey, type TestKey } from '../../../test/customer.ts'
import { createOrganizationTurns } from '../../http/limits/organizationTurns.ts'
import { createRateLimiter } from '../../http/limits/rateLimit.ts'
import { ASKING_TURNS, createProviderAsks } from './asks.ts'

const WITH_PRICE = SETTINGS.replace('weekly_tokens: 150 }', 'weekly_tokens: 150, payment_price: local_2000_month }')

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({
    settings: `${WITH_PRICE}\npublic_url: https://tollgate.test\npayments: { provider: local }\n`,
  })
})
afterAll(() => gateway.close())

function openProviderAsks() {
  const clock = new TurnedClock()
  return createProviderAsks({ limiter: createRateLimiter(clock), turns: createOrganizationTurns(clock, ASKING_TURNS) })
}

const SWITCH_ON = { enabled: true, threshold_cents: 100, amount_cents: 1_000 }

test('the 101st request at once that has the provider asked is refused, whichever it is; switching auto-pay off never is', async () => {
  const key = await gateway.customer({ admin: true })
  const put = (body: object) => gateway.ask({ method: 'PUT', path: '/manage/v1/auto-pay', key, body })
  for (let time = 0; time < 100; time += 1) {
    expect((await put(SWITCH_ON)).json).toMatchObject({ code: 'payment_method_missing' })
  }
  const post = (path: string, body: object) => gateway.ask({ path, key, body })
  const refused = await Promise.all([
    put(SWITCH_ON),
    post('/manage/v1/top-ups', { amount_cents: 1_000 }),
    post('/billing/subscription/checkout', {}),
    post('/billing/subscription/portal', {}),
  ])
  for (const { status, json, headers } of refused) {
    expect([status, json]).toMatchObject([429, { code: 'rate_limited' }])
    expect(Number(headers.get('Retry-After'))).toBeWithin(1, 13)
  }
  expect((await put({ enabled: false })).status).toBe(200)
  const other = await gateway.customer({ admin: true })
  const topUp = await gateway.ask({ path: '/manage/v1/top-ups', key: other, body: { amount_cents: 1_000 } })
  expect(topUp.status).toBe(201)
})

/** Sends requests one after another; returns how many got each status. */
async function statusesOf(count: number, ask: () => Promise<{ readonly status: number }>): Promise<object> {
  const statuses: Record<number, number> = {}
  for (let time = 0; time < count; time += 1) {
    const { status } = await ask()
    statuses[status] = (statuses[status] ?? 0) + 1
  }
  return statuses
}

const asker = (key: TestKey) => ({
  topUp: () => gateway.ask({ path: '/manage/v1/top-ups', key, body: { amount_cents: 1_000 } }),
  portal: () => gateway.ask({ path: '/billing/subscription/portal', key, body: {} }),
  checkout: () => gateway.ask({ path: '/billing/subscription/checkout', key, body: {} }),
  switchOn: () => gateway.ask({ method: 'PUT', path: '/manage/v1/auto-pay', key, body: SWITCH_ON }),
})

test('a key that is no admin keeps no admin from paying, from subscribing, from auto-pay or from the portal, however much it asks', async () => {
  const admin = await gateway.customer({ admin: true })
  const other = asker(await makeKey(gateway.database, admin.organizationId, { admin: false }))
  expect(await statusesOf(110, other.topUp)).toEqual({ 201: 30, 429: 80 })
  await Promise.all(Array.from({ length: 40 }, other.topUp))
  const { topUp, portal, checkout, switchOn } = asker(admin)
  const answers = [await topUp(), await portal(), await checkout(), await switchOn()]
  expect(answers.map(({ status }) => status)).toEqual([201, 200, 200, 409])
})

test('a request that its own bound refuses uses nothing of what the organization may ask: of top-ups, portals and checkouts', async () => {
  const admin = await gateway.customer({ admin: true })
  const { topUp, portal, checkout } = asker(admin)
  expect(await statusesOf(140, topUp)).toEqual({ 201: 30, 429: 110 })
  expect(await statusesOf(35, portal)).toEqual({ 200: 30, 429: 5 })
  const { status, json } = await portal()
  expect([status, json]).toMatchObject([429, { detail: expect.stringContaining('30 billing portals') }])
  expect(await statusesOf(35, checkout)).toEqual({ 200: 30, 429: 5 })
  const colleague = asker(await makeKey(gateway.database, admin.organizationId, { admin: true }))
  expect((await colleague.topUp()).status).toBe(201)
})

test('admins of one organization ask the provider one after another; its other callers, and other organizations, do not wait for them', async () => {
  const asks = openProviderAsks()
  const begun: string[] = []
  const ends: (() => void)[] = []
  const ask = (organizationId: string, name: string, isAdmin = true) =>
    asks.take({ organizationId, isAdmin }, async () => {
      begun.push(name)
      await new Promise<void>((resolve) => ends.push(resolve))
      return new Response(name)
    })
  const [first, second, other] = [ask('one', 'first'), ask('one', 'second'), ask('other', 'other')]
  const member = ask('one', 'member', false)
  await new Promise((resolve) => setImmediate(resolve))
  expect(begun).toEqual(['first', 'other', 'member'])
  ends[0]?.()
  await first
  await new Promise((resolve) => setImmediate(resolve))
  expect(begun).toEqual(['first', 'other', 'member', 'second'])
  for (const end of ends) end()
  await Promise.all([second, other, member])
})
