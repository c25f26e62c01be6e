/**
 * Every route that lets people or keys in, from the descriptions themselves, asked by everybody who must not get anything: nobody,
 * another organization, less of a role or a scope, another site, an ended session, a removed member. Nothing changes.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { ACCOUNT_SETTINGS, type AccountsHouse, openAccountsHouse } from '../../../test/accountsHouse.ts'
import { TEST_XPUB } from '../../../test/deposits/depositHouse.ts'
import { type ForeignRows, makeForeignRows } from '../../../test/foreignRows.ts'
import { until } from '../../../test/until.ts'
import type { Visitor } from '../../../test/visitor.ts'
import type { KeyOrSessionAccess, SessionAccess } from '../../http/access.ts'
import { patternOf, type Route } from '../../http/route.ts'
import { hashToken } from './secrets/token.ts'

/** With payments, deposits and instances, so that every room's routes are there. */
const SETTINGS = `${ACCOUNT_SETTINGS}payments: { provider: local }
plans: [{ key: p, name: P, input_tokens_monthly: 1, output_tokens_monthly: 1, weekly_tokens: 1, payment_price: local_2000_month }]
deposits: { xpub: ${TEST_XPUB}, chains: { polygon: { rpc_urls: ['http://127.0.0.1:1'] } } }
instances:
  driver: { kind: command, path: /bin/true }
  gpu_types: [{ name: a100, vram_gb: 80, count: 4, price_per_hour_cents: 120, disk_gb_max: 100 }]
  apps: [{ name: server, image: 'server:1', port: 8080, vram_gb_min: 40, models: [{ name: small, vram_gb: 20 }] }]
`

interface Operation {
  readonly name: string
  readonly method: string
  /** Beneath the host, with `{id}`. */
  readonly path: string
  /** From its route. */
  readonly access: SessionAccess | KeyOrSessionAccess
}

/** Bodies that would be taken. */
const BODIES: Readonly<Record<string, unknown>> = {
  'POST /manage/v1/keys': { scope: 'read_only' },
  'PATCH /manage/v1/keys/{id}': { name: 'changed' },
  'POST /manage/v1/keys/{id}/rotate': {},
  'PATCH /manage/v1/members/{id}': { role: 'member' },
  'POST /manage/v1/invitations': { email: 'third@example.com' },
  'PATCH /manage/v1/session': { organization_id: crypto.randomUUID() },
  'PATCH /manage/v1/organization': { notify_addresses: ['ops@example.com'] },
  'DELETE /manage/v1/organization': { organization_id: crypto.randomUUID(), name: 'default' },
  'POST /manage/v1/top-ups': { amount_cents: 2_000 },
  'PUT /manage/v1/account/erasure': { password: 'a long enough phrase' },
}

/** Of people: those that need an admin, among others that the routes say. */
const FOR_ADMINS = [
  'GET /manage/v1/audit',
  'PATCH /manage/v1/organization',
  'DELETE /manage/v1/organization',
  'GET /manage/v1/invitations',
  'POST /manage/v1/invitations',
  'DELETE /manage/v1/invitations/{id}',
  'PATCH /manage/v1/members/{id}',
  'GET /manage/v1/auto-pay',
  'PUT /manage/v1/auto-pay',
  'PUT /v1/billing/spending-limit',
  'POST /v1/billing/subscription/checkout',
  'POST /v1/billing/subscription/portal',
]

/** Of keys: those that need an admin's with every scope, among others that the routes say. */
const FOR_FULL_KEYS = /^\w+ \/manage\/v1\/(keys|members|invitations|audit|organization)/

let house: AccountsHouse
let owner: Visitor
let member: Visitor
let operations: Operation[]
/** Of another organization. */
let foreign: ForeignRows
/** The same rows, as they were. */
let untouched: string

beforeAll(async () => {
  house = await openAccountsHouse({ settings: SETTINGS })
  owner = await house.owner()
  member = await house.join(owner, 'member@example.com')
  operations = [...operationsOf(house.gateway.managed, '/manage/v1'), ...operationsOf(house.gateway.description, '/v1')]
  foreign = await makeForeignRows(house.gateway.database, await house.gateway.customer())
  untouched = await foreign.read()
}, 60_000)
afterAll(() => house.gateway.close())

/** The operations of a description that let sessions in. */
function operationsOf(description: AccountsHouse['gateway']['managed'], base: string): Operation[] {
  const found: Operation[] = []
  for (const [path, item] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      const security = (operation as { security?: readonly object[] }).security ?? []
      const upper = method.toUpperCase()
      // app/operator/tenancy.test.ts has those of operators, who see every organization.
      if (!security.some((each) => 'session' in each) || path.startsWith('/operator/')) continue
      const isIt = (route: Route) => route.method === upper && patternOf(route) === `${base}${path}`
      const access = house.gateway.app.routes.find(isIt)?.access
      if (access?.kind !== 'session' && access?.kind !== 'apiKeyOrSession') throw new Error(`${path} takes no session`)
      found.push({ name: `${upper} ${base}${path}`, method: upper, path: `${base}${path}`, access })
    }
  }
  return found
}

const isChange = ({ method }: Operation) => method !== 'GET'
const isForAdmins = ({ access }: Operation) => access.role !== 'member'
const isForFullKeys = ({ access }: Operation) => access.kind === 'apiKeyOrSession' && access.permission === 'full'

/** The path of an operation, with another organization's id where it takes one. */
function foreignPath({ path }: Operation): string {
  const word = /\/(\w[\w-]*)\/\{/.exec(path)?.[1] ?? ''
  return bare(path.replace(/\{\w+\}/, foreign.ids.get(word) ?? word))
}

/** Paths beneath /v1 are sent without it. */
function bare(path: string): string {
  return path.startsWith('/v1/') ? path.slice('/v1'.length) : path
}

function bodyOf({ name, method }: Operation): unknown {
  return BODIES[name] ?? (method === 'GET' || method === 'DELETE' ? undefined : {})
}

/** Sends an operation by a session's cookies; `headers` beside those of a page of the server. */
async function sendAs(browser: Visitor, operation: Operation, headers: Record<string, string> = {}): Promise<number> {
  const body = bodyOf(operation)
  const key =
    isChange(operation) && /webhook-endpoints$/.test(operation.path) ? { 'Idempotency-Key': crypto.randomUUID() } : {}
  if (Object.keys(headers).length === 0) {
    const response = await browser.call(operation.method, foreignPath(operation), body, key)
    await response.body?.cancel()
    return response.status
  }
  const response = await house.gateway.send(foreignPath(operation), {
    method: operation.method,
    headers: {
      Cookie: [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; '),
      'Content-Type': 'application/json',
      ...key,
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  await response.body?.cancel()
  return response.status
}

const sendByKey = (key: string, operation: Operation) =>
  sendAs(house.browser(), operation, { Authorization: `Bearer ${key}` })

/** The operation of this name. */
function named(name: string): Operation {
  const found = operations.find((operation) => operation.name === name)
  if (found === undefined) throw new Error(`no operation ${name}`)
  return found
}

async function each(chosen: (operation: Operation) => boolean, ask: (operation: Operation) => Promise<number>) {
  const answers: [string, number][] = []
  for (const operation of operations.filter(chosen)) answers.push([operation.name, await ask(operation)])
  expect(answers.length).toBeGreaterThan(0)
  return answers
}

const all = () => true
const all403 = (answers: [string, number][]) => expect(answers).toEqual(answers.map(([name]) => [name, 403]))
const all401 = (answers: [string, number][]) => answers.map(([name]) => [name, 401])

describe('every route for sessions', () => {
  test('is in the list of this test', () => {
    const named = operations.map(({ name }) => name)
    for (const name of [...FOR_ADMINS, ...Object.keys(BODIES)]) expect(named).toContain(name)
    const own = ['GET /manage/v1/session', 'DELETE /manage/v1/sessions/{id}', 'GET /manage/v1/account/export']
    expect(named).toEqual(expect.arrayContaining(own))
    const rooms = ['POST /v1/instances', 'GET /v1/operations/{id}', 'GET /v1/billing/deposits/{id}']
    expect(named).toEqual(expect.arrayContaining(rooms))
    const nameOf = ({ name }: Operation) => name
    expect(operations.filter(isForAdmins).map(nameOf)).toEqual(expect.arrayContaining(FOR_ADMINS))
    const byFullKeys = operations.filter(({ name, access }) => access.kind !== 'session' && FOR_FULL_KEYS.test(name))
    expect(byFullKeys.filter((operation) => !isForFullKeys(operation))).toEqual([])
  })

  test('lets nobody in without a session or a key', async () => {
    const answers = await each(all, (operation) =>
      sendAs(house.browser(), operation, { Origin: 'http://127.0.0.1:8080' }),
    )
    expect(answers).toEqual(all401(answers) as typeof answers)
  })

  test("answers another organization's ids as missing ones", async () => {
    const answers = await each(
      ({ path }) => path.includes('{'),
      (operation) => sendAs(owner, operation),
    )
    expect(answers).toEqual(answers.map(([name]) => [name, 404]))
    // Each kind of row is named by some path. A statement is named by its month.
    const named = operations.map(({ path }) => /\/(\w[\w-]*)\/\{/.exec(path)?.[1] ?? '').filter((word) => word !== '')
    expect(new Set(named)).toEqual(new Set([...foreign.ids.keys(), 'statements']))
  })

  test("shows nothing of another organization's statement, which a month names and no id", async () => {
    const theirs = await house.gateway.customer({ cents: 0 })
    await house.gateway.database.query(
      `insert into statements (organization_id, month, opening_microcents, closing_microcents, closed_at)
       values ($1, '2026-01-01', 987654321, 987654321, now())`,
      [theirs.organizationId],
    )
    const path = '/manage/v1/statements/2026-01'
    const [own, other] = await Promise.all([owner.call('GET', path), house.gateway.get(theirs, path)])
    const shows = async (answer: Response) => (await answer.text()).includes('987654321')
    expect([await shows(own), await shows(other)]).toEqual([false, true])
  })

  test('changes nothing without the CSRF token, or from another site', async () => {
    const own = { Origin: 'http://127.0.0.1:8080' }
    for (const headers of [own, { ...own, 'X-CSRF-Token': 'x' }, { Origin: 'https://evil.test' }]) {
      const answers = await each(isChange, (operation) => sendAs(owner, operation, headers))
      all403(answers)
    }
  })

  test('for admins lets no member in, and the others do', async () => {
    all403(await each(isForAdmins, (operation) => sendAs(member, operation)))
    const isOpen = (operation: Operation) => !isForAdmins(operation) && !isChange(operation)
    for (const [name, status] of await each(isOpen, (operation) => sendAs(member, operation)))
      expect([name, status]).not.toEqual([name, 403])
  })

  test('for admins lets nobody in whose role was taken away, nor the keys', async () => {
    const lowered = await house.join(owner, 'lowered@example.com', 'admin')
    const { member_id: id } = await (await lowered.call('GET', '/manage/v1/session')).json()
    const made = await lowered.call('POST', '/manage/v1/keys', { name: 'k', scope: 'full_access', admin: true })
    const { key } = await made.json()
    const byKey = (operation: Operation) => sendByKey(key, operation)
    const isForKeys = (operation: Operation) =>
      operation.access.kind !== 'session' && (isForAdmins(operation) || isForFullKeys(operation))
    const sessionBefore = await sendAs(lowered, named('GET /manage/v1/audit'))
    expect([sessionBefore, await byKey(named('GET /manage/v1/audit'))]).toEqual([200, 200])
    await owner.call('PATCH', `/manage/v1/members/${id}`, { role: 'member' })
    all403(await each(isForAdmins, (operation) => sendAs(lowered, operation)))
    await until(async () => (await byKey(named('GET /manage/v1/audit'))) === 403)
    all403(await each(isForKeys, byKey))
  })

  test('for sessions alone lets no key in; the others no narrow one', async () => {
    const full = await house.gateway.customer({ scopes: 'full_access', admin: true })
    const narrow = await house.gateway.customer({ scopes: 'serverless:read', admin: true })
    const plain = await house.gateway.customer({ scopes: 'full_access' })
    const closed = await each(
      ({ access }) => access.kind === 'session',
      (operation) => sendByKey(full.key, operation),
    )
    expect(closed).toEqual(all401(closed) as typeof closed)
    for (const { key } of [narrow, plain]) all403(await each(isForFullKeys, (operation) => sendByKey(key, operation)))
  })

  test('lets nobody in whose session has expired, or was ended', async () => {
    for (const end of [
      "update sessions set expires_at = now() - interval '1 minute' where user_id = $1",
      'delete from sessions where user_id = $1',
    ]) {
      const browser = house.browser()
      await browser.fill('/account/sign-in', { email: 'member@example.com', password: 'a long enough phrase' })
      const { user } = await (await browser.call('GET', '/manage/v1/session')).json()
      await house.gateway.database.query(end, [user.id])
      const answers = await each(all, (operation) => sendAs(browser, operation, { Origin: 'http://127.0.0.1:8080' }))
      expect(answers).toEqual(all401(answers) as typeof answers)
    }
  })

  test('lets nobody in who was removed', async () => {
    const gone = await house.join(owner, 'gone@example.com', 'admin')
    const { member_id: id } = await (await gone.call('GET', '/manage/v1/session')).json()
    await owner.call('DELETE', `/manage/v1/members/${id}`)
    const ended = await each(all, (operation) => sendAs(gone, operation, { Origin: 'http://127.0.0.1:8080' }))
    expect(ended).toEqual(all401(ended) as typeof ended)
    await gone.fill('/account/sign-in', { email: 'gone@example.com', password: 'a long enough phrase' })
    const again = await each(all, (operation) => sendAs(gone, operation, { Origin: 'http://127.0.0.1:8080' }))
    all403(again)
  })

  test('has changed nothing of the other organization', async () => {
    expect(await foreign.read()).toBe(untouched)
  })
})

describe('a device login that a session has claimed', () => {
  const FIELDS = { serverless: 'write', billing: 'write', webhooks: 'write', instances: 'write' }
  const SIGN_IN = { email: 'member@example.com', password: 'a long enough phrase' }
  let claimant: Visitor
  let path: string
  let claimed: string

  const loginRows = async () => JSON.stringify(await house.gateway.database.query('select * from device_logins'))
  const denial = () => path.replace('/approve?', '/deny?')

  beforeAll(async () => {
    claimant = house.browser()
    await claimant.fill('/account/sign-in', SIGN_IN)
    const body = { client_id: 'tollgate-cli' }
    const { json } = await house.gateway.ask({ path: '/manage/v1/device/code', body })
    const { user_code: code } = json as { user_code: string }
    path = (await claimant.fill('/account/device', { code })).location ?? ''
    expect((await claimant.open(path)).status).toBe(200)
    claimed = await loginRows()
  })

  /** The statuses of its page, its approval and its denial. */
  async function answersTo(browser: Visitor, headers: Record<string, string> = {}) {
    const sent = async (action: string) => (await browser.fill('/account', FIELDS, { action, headers })).status
    return [(await browser.open(path)).status, await sent(path), await sent(denial())]
  }

  test('is shown to nobody who is not signed in, and decided by none', async () => {
    expect(await answersTo(house.browser())).toEqual([303, 403, 403])
  })

  test("is missing for other members, for another session of the person, and for another organization's people", async () => {
    const again = house.browser()
    await again.fill('/account/sign-in', SIGN_IN)
    const foreigner = house.browser()
    const token = 'a-token-of-theirs-of-32-letters_'
    await house.gateway.database.query(
      `insert into sessions (token, user_id, expires_at, created_at, updated_at)
       values ($1, $2, now() + interval '1 day', now(), now())`,
      [hashToken(token), foreign.userId],
    )
    foreigner.cookies.set('tollgate_session', token)
    for (const browser of [owner, again, foreigner]) expect(await answersTo(browser)).toEqual([404, 404, 404])
  })

  test('is missing while its session acts for another organization', async () => {
    const { database } = house.gateway
    const { user, organization } = await (await claimant.call('GET', '/manage/v1/session')).json()
    const id = crypto.randomUUID()
    await database.query(
      "insert into members (id, organization_id, user_id, role, created_at) values ($1, $2, $3, 'owner', now())",
      [id, foreign.organizationId, user.id],
    )
    await claimant.call('PATCH', '/manage/v1/session', { organization_id: foreign.organizationId })
    expect(await answersTo(claimant)).toEqual([404, 404, 404])
    await claimant.call('PATCH', '/manage/v1/session', { organization_id: organization.id })
    await database.query('delete from members where id = $1', [id])
  })

  test('is decided neither from another site nor without the CSRF token', async () => {
    expect(await answersTo(claimant, { Origin: 'https://evil.test' })).toEqual([200, 403, 403])
    for (const action of [path, denial()])
      expect((await claimant.fill('/account', { ...FIELDS, csrf: 'x' }, { action })).status).toBe(403)
  })

  test('has not changed by any of this, and is lost with its session', async () => {
    expect(await loginRows()).toBe(claimed)
    await claimant.fill('/account', {}, { action: '/account/sign-out' })
    await claimant.fill('/account/sign-in', SIGN_IN)
    expect(await answersTo(claimant)).toEqual([404, 404, 404])
    expect(await loginRows()).toBe(claimed)
  })
})
