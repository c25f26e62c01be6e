/**
 * Every route for operators, from the description itself, asked by everybody who is none: it answers as if it were
 * not there, and nothing changes. The answers to operators are in gateway.test.ts.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, openAccountsHouse } from '../../../test/accountsHouse.ts'
import { BROWSER_ORIGIN, type Visitor } from '../../../test/visitor.ts'

interface Operation {
  readonly name: string
  readonly method: string
  readonly path: string
}

/** Bodies that would be taken, by the end of the path. */
const BODIES: Readonly<Record<string, unknown>> = {
  organizations: { name: 'Another' },
  credits: { amount_cents: 100 },
  freezes: { reason: 'operator' },
}

let house: AccountsHouse
let operator: Visitor
let operations: Operation[]

beforeAll(async () => {
  house = await openAccountsHouse()
  operator = await house.owner()
  operations = Object.entries(house.gateway.managed.paths)
    .filter(([path]) => path.startsWith('/operator/'))
    .flatMap(([path, item]) =>
      Object.keys(item).map((method) => ({
        name: `${method.toUpperCase()} ${path}`,
        method: method.toUpperCase(),
        path: `/manage/v1${path.replace('{id}', house.organizationId).replace('{reason}', 'operator')}`,
      })),
    )
}, 60_000)
afterAll(() => house.gateway.close())

async function send(browser: Visitor, operation: Operation, headers: Readonly<Record<string, string>>) {
  const body = operation.method === 'POST' ? BODIES[operation.path.split('/').at(-1) ?? ''] : undefined
  const response = await house.gateway.send(operation.path, {
    method: operation.method,
    headers: {
      Cookie: [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; '),
      'Content-Type': 'application/json',
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const { status } = response
  await response.body?.cancel()
  return status
}

/** The headers of a page of the server, with the session's CSRF token. */
async function ownPage(browser: Visitor): Promise<Record<string, string>> {
  const session = await (await browser.call('GET', '/manage/v1/session')).json()
  return { Origin: BROWSER_ORIGIN, 'X-CSRF-Token': String(session.csrf_token) }
}

async function each(ask: (operation: Operation) => Promise<number>, chosen = operations) {
  const answers: [string, number][] = []
  for (const operation of chosen) answers.push([operation.name, await ask(operation)])
  return answers
}

const all = (status: number, chosen = operations) => chosen.map(({ name }) => [name, status] as [string, number])

async function state() {
  const rows = await house.gateway.database.query<{ row: string }>(
    `select t::text as row from organizations t union all select t::text from ledger_entries t
     union all select t::text from organization_freezes t union all select t::text from audit_entries t order by row`,
  )
  return rows.map(({ row }) => row).join('\n')
}

test('the description has each of them, for sessions alone, with what changes by a CSRF token', () => {
  expect(operations.map(({ name }) => name)).toEqual([
    'GET /operator/organizations',
    'POST /operator/organizations',
    'GET /operator/organizations/{id}',
    'DELETE /operator/organizations/{id}',
    'POST /operator/organizations/{id}/credits',
    'POST /operator/organizations/{id}/freezes',
    'DELETE /operator/organizations/{id}/freezes/{reason}',
    'GET /operator/targets',
    'GET /operator/queues',
    'GET /operator/dead-charges',
    'GET /operator/ledger-check',
  ])
})

test('nobody, a member, an admin, another owner and a full key are told that there is nothing, and nothing changes', async () => {
  const [member, admin] = [
    await house.join(operator, 'm@example.com'),
    await house.join(operator, 'a@example.com', 'admin'),
  ]
  const owner = await house.join(operator, 'o@example.com', 'owner')
  const { key } = await house.gateway.customer({ scopes: 'full_access', admin: true })
  const before = await state()
  expect(await each((operation) => send(house.browser(), operation, { Origin: BROWSER_ORIGIN }))).toEqual(all(404))
  expect(await each((operation) => send(house.browser(), operation, { Authorization: `Bearer ${key}` }))).toEqual(
    all(404),
  )
  for (const browser of [member, admin, owner]) {
    const headers = await ownPage(browser)
    expect(await each((operation) => send(browser, operation, headers))).toEqual(all(404))
    expect(await each((operation) => send(browser, operation, { Origin: 'https://evil.test' }))).toEqual(all(404))
  }
  expect(await state()).toBe(before)
})

test('nothing tells their paths from unknown ones to anybody who is no operator: no method, header or body', async () => {
  const member = await house.join(operator, 'curious@example.com')
  const { key } = await house.gateway.customer({ scopes: 'full_access', admin: true })
  const cookie = [...member.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
  const callers = [{}, { Cookie: cookie }, { Cookie: 'tollgate_session=none' }, { Authorization: `Bearer ${key}` }]
  const answerOf = async (path: string, method: string, headers: Readonly<Record<string, string>>) => {
    const sent = { ...headers, 'X-Request-Id': 'curious' }
    const response = await house.gateway.send(path, {
      method,
      headers: sent,
      ...(method === 'POST' ? { body: 'x'.repeat(9 << 20) } : {}),
    })
    const { status } = response
    response.headers.delete('Date')
    return { status, headers: [...response.headers].sort(), text: await response.text() }
  }
  const paths = [...new Set(operations.map(({ path }) => path))]
  for (const headers of callers)
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const unknown = await answerOf('/manage/v1/nope', method, headers)
      expect(unknown.status).toBe(404)
      for (const path of paths) expect(await answerOf(`${path}?x=1`, method, headers)).toEqual(unknown)
    }
})

test('an operator who uses a wrong method hears which ones there are', async () => {
  const response = await operator.call('PUT', '/manage/v1/operator/organizations', {})
  expect([response.status, response.headers.get('Allow')]).toEqual([405, 'GET, HEAD, POST'])
})

test("an operator's change from another site, or without the CSRF token, is refused", async () => {
  const before = await state()
  const changes = operations.filter(({ method }) => method !== 'GET')
  for (const headers of [
    { Origin: BROWSER_ORIGIN },
    { Origin: BROWSER_ORIGIN, 'X-CSRF-Token': 'x' },
    { Origin: 'https://evil.test' },
  ])
    expect(await each((operation) => send(operator, operation, headers), changes)).toEqual(all(403, changes))
  expect(await state()).toBe(before)
})

test('a person who was an operator is told that there is nothing from the next request on; so is one whose session has expired', async () => {
  const { database } = house.gateway
  const headers = await ownPage(operator)
  await database.query("update users set is_operator = false where email = 'ada@example.com'")
  const before = await state()
  expect(await each((operation) => send(operator, operation, headers))).toEqual(all(404))
  await database.query("update users set is_operator = true where email = 'ada@example.com'")
  await database.query("update sessions set expires_at = now() - interval '1 minute'")
  expect(await each((operation) => send(operator, operation, headers))).toEqual(all(404))
  expect(await state()).toBe(before)
})
