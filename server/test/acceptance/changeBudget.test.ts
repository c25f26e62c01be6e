/** The budget of an organization's changes (K7): it bounds what makes something or can be repeated, and never what ends something. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { grantCredit } from '../../src/billing/ledger/grantCredit.ts'
import { setSpendingLimit } from '../../src/billing/limits/set.ts'
import { revokeKey } from '../../src/identity/keys/revoke.ts'
import { systemClock } from '../../src/infra/clock.ts'
import { systemRandom } from '../../src/infra/random.ts'
import { HOUR_MS, SECOND_MS } from '../../src/lib/time.ts'
import { type AccountsHouse, openAccountsHouse } from '../accountsHouse.ts'
import { makeKey, type TestKey } from '../customer.ts'
import { BROWSER_ORIGIN, type Visitor } from '../visitor.ts'
import { type AskedGateway, openAskedGateway, type Question } from './ask.ts'
import type { Answer } from './description.ts'
import { PAYING_SETTINGS } from './paymentRows.ts'
import { expectRefusal } from './refusals.ts'

const DRIVER = '#!/bin/sh\n[ "$1" = list ] && echo \'{"machines":[]}\' || exit 1\n'
const START_MS = Date.UTC(2031, 0, 1)
let elapsedMs = 0
/** Stands still until it is turned; the deadlines of the database's connections are real. */
const clock = { now: () => START_MS + elapsedMs, monotonicMs: () => elapsedMs, after: systemClock.after }
const NO_RATE = 'rate_limit: { requests_per_second: 10000, burst: 100000 }'

let folder: string
let house: AccountsHouse
let owner: Visitor
let beside: AskedGateway
/** An admin's key of the organization that each test has for itself. */
let key: TestKey
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-changes-'))
  const driver = join(folder, 'cloud')
  await writeFile(driver, DRIVER)
  await chmod(driver, 0o755)
  const settings = `${PAYING_SETTINGS.replace('https://tollgate.test', BROWSER_ORIGIN)}
${NO_RATE}
accounts: {}
instances:
  driver: { kind: command, path: ${driver} }
  gpu_types: [{ name: a100, vram_gb: 80, count: 4, price_per_hour_cents: 120, disk_gb_max: 100 }]
  apps: [{ name: server, image: 'server:1', port: 8080, vram_gb_min: 40, models: [{ name: small, vram_gb: 20 }] }]
`
  house = await openAccountsHouse({ settings, clock })
  owner = await house.owner()
  beside = await openAskedGateway({ settings: NO_RATE, clock, beside: house.gateway })
})
beforeEach(async () => {
  key = await house.gateway.customer({ admin: true })
})
afterAll(async () => {
  await beside.close()
  await house.gateway.close()
  await rm(folder, { recursive: true })
})

const LIMIT = '/billing/spending-limit'
const HOOKS = '/webhook-endpoints'
const MANAGE = '/manage/v1'
const AUTO_PAY = `${MANAGE}/auto-pay`

const ask = (question: Question, at: AskedGateway = house.gateway): Promise<Answer> =>
  at.ask({ key, ...question, headers: { 'Idempotency-Key': crypto.randomUUID(), ...question.headers } })

const setLimit = (dollars: number, at?: AskedGateway) =>
  ask({ method: 'PUT', path: LIMIT, body: { monthly_limit_dollars: dollars } }, at)

async function countEntries(organizationId = key.organizationId): Promise<number> {
  const sql = 'select 1 from audit_entries where organization_id = $1::uuid'
  return (await house.gateway.database.query(sql, [organizationId])).length
}

/** Uses the budget up, as 300 changes do. */
async function useUp(): Promise<void> {
  await house.gateway.database.query(
    `insert into audit_budgets (organization_id, spent_until) values ($1::uuid, $2::timestamptz)
     on conflict (organization_id) do update set spent_until = excluded.spent_until`,
    [key.organizationId, new Date(clock.now() + HOUR_MS).toISOString()],
  )
  const refused = await setLimit(999)
  expectRefusal(refused, 'A', { status: 429, code: 'rate_limited', retryAfter: 12 })
}

/** Returns the status of the answer to a question that a browser asks. */
async function statusOf(browser: Visitor, { method = 'POST', path, body }: Question): Promise<number> {
  return (await browser.call(method, path, body, { 'Idempotency-Key': crypto.randomUUID() })).status
}

test('of requests at once, 50 at a time over two processes, exactly 300 change something; the others are refused', async () => {
  const answers: Answer[] = []
  for (let batch = 0; batch < 7; batch += 1) {
    const places = Array.from({ length: 50 }, (_, index) => batch * 50 + index)
    const asked = places.map((place) => setLimit(100 + place, place % 2 === 0 ? house.gateway : beside))
    answers.push(...(await Promise.all(asked)))
  }
  const of = (status: number) => answers.filter((each) => each.status === status)
  expect([of(200).length, of(429).length, await countEntries()]).toEqual([300, 50, 300])
  for (const refused of of(429)) {
    const says = /300 changes.*every 12 seconds.*Nothing was changed; try again in 12 seconds.*always possible/
    expectRefusal(refused, 'A', { status: 429, code: 'rate_limited', retryAfter: 12, says })
  }
  // A restart forgets nothing, and a further key has no budget of its own.
  const another = await makeKey(house.gateway.database, key.organizationId, { admin: true }, clock)
  const third = await openAskedGateway({ settings: NO_RATE, clock, beside: house.gateway })
  expect(
    (await ask({ method: 'PUT', path: LIMIT, body: { monthly_limit_dollars: 9 }, key: another }, third)).status,
  ).toBe(429)
  await third.close()
  expect((await ask({ path: LIMIT })).json).not.toMatchObject({ monthly_limit_dollars: 9 })
  expect(await countEntries()).toBe(300)
}, 60_000)

test('it frees itself with time, and the refused request is carried out by its Idempotency-Key', async () => {
  await useUp()
  const body = { url: 'https://example.com/later', event_types: ['video.completed'] }
  const later = { path: HOOKS, body, headers: { 'Idempotency-Key': crypto.randomUUID() } }
  expect((await ask(later)).status).toBe(429)
  elapsedMs += 12 * SECOND_MS
  expect((await ask(later)).status).toBe(201)
  expect((await setLimit(500)).status).toBe(429)
  elapsedMs += HOUR_MS
  for (const dollars of [501, 502, 503]) expect((await setLimit(dollars)).status).toBe(200)
})

/** A member of the organization `default` besides its owner, and an admin's key of it, which becomes the key of the test. */
async function joinDefault(email: string, role = 'member'): Promise<{ browser: Visitor; memberId: string }> {
  elapsedMs += HOUR_MS
  const browser = await house.join(owner, email, role)
  const { member_id: memberId } = await (await browser.call('GET', `${MANAGE}/session`)).json()
  key = await makeKey(house.gateway.database, house.organizationId, { admin: true }, clock)
  return { browser, memberId }
}

test('a change that changes nothing leaves no entry and no row version, and is taken when the budget is used up', async () => {
  const { memberId } = await joinDefault('same@example.com')
  const terms = { enabled: false, threshold_cents: 700, amount_cents: 900 }
  const same: Question[] = [
    { method: 'PUT', path: LIMIT, body: { monthly_limit_dollars: 77 } },
    { method: 'PUT', path: AUTO_PAY, body: terms },
    { method: 'PATCH', path: `${MANAGE}/keys/${key.id}`, body: { name: 'robot', expires: '2040-01-01' } },
    { method: 'PATCH', path: `${MANAGE}/organization`, body: { notify_addresses: ['a@example.com', 'b@example.com'] } },
    { method: 'PATCH', path: `${MANAGE}/members/${memberId}`, body: { role: 'member' } },
  ]
  for (const question of same) expect([question, (await ask(question)).status]).toEqual([question, 200])
  const before = await countEntries()
  const versions = await versionsNow()
  for (const question of same) expect([question, (await ask(question)).status]).toEqual([question, 200])
  expect(await countEntries()).toBe(before)
  expect(await versionsNow()).toEqual(versions)
  await useUp()
  for (const question of same) expect([question, (await ask(question)).status]).toEqual([question, 200])
  expect(await countEntries()).toBe(before)
})

/** Returns the versions of all rows that these changes are of. */
function versionsNow(): Promise<unknown> {
  const tables = ['api_keys', 'auto_pay', 'accounts', 'organizations', 'members', 'audit_budgets']
  return Promise.all(
    tables.map((table) => house.gateway.database.query(`select '${table}', ctid::text from ${table} order by 2`)),
  )
}

const TABLES = [
  'audit_entries',
  'webhook_endpoints',
  'instances',
  'api_keys',
  'invitations',
  'members',
  'organizations',
  'auto_pay',
]

/** Returns all rows that changes write; of accounts the limits, since the rest moves by itself. */
function rowsNow(): Promise<unknown> {
  const { database } = house.gateway
  const limits = 'select monthly_limit_microcents, daily_limit_microcents from accounts order by organization_id'
  const all = TABLES.map((table) => `select to_jsonb(t)::text as row from ${table} t order by 1`)
  return Promise.all([...all, limits].map((sql) => database.query(sql)))
}

test('beyond the budget nothing is made or changed, by a key or a session', async () => {
  const { browser, memberId } = await joinDefault('made@example.com', 'admin')
  const wanted = { app: 'server', gpu_type: 'a100', gpu_count: 2, disk_gb: 10, model: 'small' }
  const begun = await begin()
  const login = (await owner.fill('/account/device', { code: begun.user_code })).location ?? ''
  await useUp()
  const before = await rowsNow()
  const refused: Question[] = [
    { path: HOOKS, body: { url: 'https://example.com/hook', event_types: ['video.completed'] } },
    { method: 'PUT', path: LIMIT, body: { monthly_limit_dollars: 78 } },
    { method: 'PUT', path: AUTO_PAY, body: { enabled: false, threshold_cents: 701, amount_cents: 901 } },
    { path: '/instances', body: { ...wanted, expected_price_per_hour_cents: 240 } },
    { path: `${MANAGE}/keys`, body: { name: 'robot', scope: 'read_only' } },
    { method: 'PATCH', path: `${MANAGE}/keys/${key.id}`, body: { name: 'other' } },
    { path: `${MANAGE}/keys/${key.id}/rotate`, body: {} },
    { path: `${MANAGE}/invitations`, body: { email: 'new@example.com', role: 'member' } },
    { method: 'PATCH', path: `${MANAGE}/organization`, body: { notify_addresses: ['c@example.com'] } },
  ]
  for (const question of refused) {
    const { status, headers } = await ask(question)
    expect([question, status, headers.get('Retry-After')]).toEqual([question, 429, '12'])
    expect([question, await statusOf(browser, question)]).toEqual([question, 429])
  }
  const raise = { method: 'PATCH', path: `${MANAGE}/members/${memberId}`, body: { role: 'owner' } }
  expect(await statusOf(owner, raise)).toBe(429)
  const page = await owner.fill('/account/device', ALL, { action: login })
  expect([page.status, page.text]).toEqual([422, expect.stringContaining('try again in 12 seconds')])
  expect(await rowsNow()).toEqual(before)
  elapsedMs += 12 * SECOND_MS
  expect((await owner.fill('/account/device', ALL, { action: login })).text).toContain('Approved')
  // It was counted when it was approved.
  const token = { grant_type: 'urn:ietf:params:oauth:grant-type:device_code', device_code: begun.device_code }
  expect((await ask({ path: `${MANAGE}/device/token`, key: undefined, body: { ...CLIENT, ...token } })).status).toBe(
    200,
  )
}, 60_000)

const CLIENT = { client_id: 'tollgate-cli' }
const ALL = { serverless: 'write', billing: 'write', webhooks: 'write', instances: 'write' }

async function begin(): Promise<{ readonly device_code: string; readonly user_code: string }> {
  const { json } = await ask({ path: `${MANAGE}/device/code`, key: undefined, body: { ...CLIENT, name: 'laptop' } })
  return json as { device_code: string; user_code: string }
}

test('nothing that ends something, takes rights away or is done by an operator is refused', async () => {
  const { browser, memberId } = await joinDefault('ends@example.com', 'admin')
  const { database } = house.gateway
  await database.transaction((tx) =>
    grantCredit(tx, systemRandom(), { ...GRANT, organizationId: house.organizationId, atMs: clock.now() }),
  )
  const wanted = { app: 'server', gpu_type: 'a100', gpu_count: 1, disk_gb: 10, model: 'small' }
  const idOf = ({ json }: Answer, field = 'id') => String((json as Record<string, unknown>)[field])
  const hook = idOf(
    await ask({ path: HOOKS, body: { url: 'https://example.com/x', event_types: ['video.completed'] } }),
  )
  const instance = idOf(
    await ask({ path: '/instances', body: { ...wanted, expected_price_per_hour_cents: 120 } }),
    'resource_id',
  )
  const other = idOf(await ask({ path: `${MANAGE}/keys`, body: { name: 'other', scope: 'full_access', admin: true } }))
  const invited = idOf(await ask({ path: `${MANAGE}/invitations`, body: { email: 'no@example.com', role: 'member' } }))
  const terms = { enabled: false, threshold_cents: 700, amount_cents: 950 }
  expect((await ask({ method: 'PUT', path: AUTO_PAY, body: terms })).status).toBe(200)
  await database.query('update auto_pay set is_enabled = true')
  const { id: session } = await (await browser.call('GET', `${MANAGE}/session`)).json()
  await useUp()

  const operated = `${MANAGE}/operator/organizations/${house.organizationId}`
  const done: [Visitor | null, Question, number][] = [
    [null, { method: 'DELETE', path: `${HOOKS}/${hook}` }, 204],
    [null, { method: 'DELETE', path: `/instances/${instance}` }, 202],
    [null, { method: 'DELETE', path: `${MANAGE}/invitations/${invited}` }, 204],
    [null, { method: 'PUT', path: AUTO_PAY, body: { ...terms, amount_cents: 960 } }, 200],
    [null, { path: `${MANAGE}/top-ups`, body: { amount_cents: 1_500 } }, 201],
    [null, { path: '/billing/subscription/portal', body: {} }, 200],
    [owner, { method: 'PATCH', path: `${MANAGE}/members/${memberId}`, body: { role: 'member' } }, 200],
    [browser, { method: 'DELETE', path: `${MANAGE}/sessions/${session}` }, 204],
    [owner, { method: 'DELETE', path: `${MANAGE}/members/${memberId}` }, 204],
    [null, { method: 'DELETE', path: `${MANAGE}/keys/${other}` }, 204],
    [owner, { path: `${operated}/credits`, body: { amount_cents: 100 } }, 201],
    [owner, { path: `${operated}/freezes`, body: { reason: 'operator' } }, 201],
    [owner, { method: 'DELETE', path: `${operated}/freezes/operator` }, 200],
  ]
  const entries = await countEntries()
  for (const [by, question, expected] of done) {
    const status = by === null ? (await ask(question)).status : await statusOf(by, question)
    expect([question, status]).toEqual([question, expected])
  }
  // Signing out is among the entries of the person.
  expect(await countEntries()).toBe(entries + done.length - 1)
  // As the command line does.
  await setSpendingLimit({ database, clock }, house.organizationId, {
    ...{ monthlyDollars: 66, dailyDollars: undefined, enforcement: undefined, autoTerminateHours: undefined },
  })
  const made = await makeKey(database, house.organizationId, {}, clock)
  expect((await revokeKey({ database, clock }, made.id)).ok).toBe(true)
  expect((await setLimit(67)).status).toBe(429)
}, 60_000)

const GRANT = { amountMicrocents: 10_000_000_000n, source: 'test:changes', note: null, isPayment: true }
