/** People and their browser against the real server: set up, sign out and in, a forgotten password, keys and what they call, members. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Chromium, openChromium, type Tab } from '../chromium.ts'
import { startServer, type TestServer } from '../server.ts'

const LONG_MS = 120_000
const PASSWORD = 'a long enough phrase'

const SETTINGS = `
accounts: {}
providers: { sandbox: { dialect: sandbox } }
models:
  - id: svc/sandbox
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100000, output_per_1m_tokens_cents: 100000 }
    targets: [{ provider: sandbox, model: sandbox }]
`

let server: TestServer
let chromium: Chromium
let base: string
/** Those of the first test, signed in from then on. */
let owner: Tab
beforeAll(async () => {
  server = await startServer({ settings: SETTINGS })
  base = server.url.replace(/\/v1$/, '')
  chromium = await openChromium()
}, LONG_MS)
afterAll(async () => {
  await chromium.close()
  await server.remove()
}, LONG_MS)

/** The address of the last link that was sent to somebody. */
async function linkTo(email: string): Promise<string> {
  for (let looks = 0; looks < 200; looks += 1) {
    const text = await readFile(join(server.dataDir, 'account-links'), 'utf8').catch(() => '')
    const mail = text.split(/^(?=\d{4}-)/m).findLast((each) => each.includes(` to ${email}: `))
    const url = /(http:\S+)/.exec(mail ?? '')?.[1]
    if (url !== undefined) return url
    await Bun.sleep(50)
  }
  throw new Error(`no link was sent to ${email}`)
}

/** Calls the management interface from a script of the server's origin. Its pages allow none, so that another document is opened. */
async function call<T>(tab: Tab, method: string, path: string, body?: object): Promise<{ status: number; body: T }> {
  await tab.open(`${base}/v1/health`)
  await tab.evaluate(` (async () => {
    const session = await (await fetch('/manage/v1/session')).json()
    const response = await fetch(${JSON.stringify(path)}, {
      method: ${JSON.stringify(method)},
      headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': session.csrf_token ?? '' },
      body: ${body === undefined ? 'undefined' : JSON.stringify(JSON.stringify(body))},
    })
    const text = await response.text()
    window.answer = JSON.stringify({ status: response.status, body: text === '' ? null : JSON.parse(text) })
  })()`)
  for (let looks = 0; looks < 200; looks += 1) {
    const answer = await tab.evaluate('window.answer')
    if (typeof answer === 'string') return JSON.parse(answer)
    await Bun.sleep(25)
  }
  throw new Error('the page got no answer')
}

interface MadeKey {
  readonly id: string
  readonly key: string
}

/** Makes a key by a person's session. */
async function makeKey(tab: Tab, scope: string): Promise<MadeKey> {
  const made = await call<MadeKey>(tab, 'POST', '/manage/v1/keys', { name: 'mine', scope })
  expect(made.status).toBe(201)
  return made.body
}

/** Asks the model; returns the status, the code of a refusal, and the cost that the answer names. */
async function chat(key: string): Promise<{ status: number; code: string | undefined; cost: string | null }> {
  const answer = await fetch(`${server.url}/chat/completions`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'svc/sandbox', messages: [{ role: 'user', content: 'hi' }] }),
  })
  const { error } = (await answer.json()) as { error?: { code: string } }
  return { status: answer.status, code: error?.code, cost: answer.headers.get('Svc-Cost-Microcents') }
}

/** Waits until a key has ended; resolves to the milliseconds that it took. */
async function msUntilEnded(key: string): Promise<number> {
  const startedAt = performance.now()
  while ((await chat(key)).code !== 'invalid_api_key') {
    if (performance.now() - startedAt > LONG_MS / 2) throw new Error('the key goes on')
  }
  return performance.now() - startedAt
}

test(
  'set up, sign out, forgotten password',
  async () => {
    owner = await chromium.tab()
    const facts = JSON.parse(server.output().split('\n')[0] ?? '{}')
    const setUpUrl = (await readFile(facts.set_up_file, 'utf8')).trim()
    expect(setUpUrl).toStartWith(`${base}/account/set-up?token=`)
    await owner.open(setUpUrl)
    await owner.submit({ name: 'Ada', email: 'ada@example.com', new_password: PASSWORD }, 'Make the account')
    expect(await owner.url()).toBe(`${base}/account`)
    expect(await owner.text()).toContain('as owner')
    expect(await owner.evaluate('document.cookie')).toBe('')

    await owner.open(`${base}/account`)
    await owner.submit({}, 'Sign out')
    expect(await owner.url()).toBe(`${base}/account/sign-in`)
    await owner.submit({ email: 'ada@example.com', password: 'wrong wrong wrong' }, 'Sign in')
    expect(await owner.text()).toContain('The address or the password is wrong.')
    await owner.open(`${base}/account/forgotten`)
    await owner.submit({ email: 'ada@example.com' }, 'Make the link')
    expect(await owner.text()).toContain('a link is written to the file account-links')
    await owner.open(await linkTo('ada@example.com'))
    await owner.submit({ new_password: 'quite another phrase' }, 'Set the password')
    expect(await owner.url()).toBe(`${base}/account`)
  },
  LONG_MS,
)

test(
  'a key calls a model: the answer names its cost, which is in the charges; without credit it is 402, by scope 403',
  async () => {
    const { key } = await makeKey(owner, 'full_access')
    const { status, cost } = await chat(key)
    expect([status, Number(cost)]).toEqual([200, expect.any(Number)])
    expect(Number(cost)).toBeGreaterThan(0)
    const charges = await call<{ data: { cost_microcents: unknown }[] }>(owner, 'GET', '/manage/v1/charges')
    expect(charges.body.data.map(({ cost_microcents: microcents }) => String(microcents))).toEqual([String(cost)])

    const narrow = await makeKey(owner, 'billing:read')
    expect(await chat(narrow.key)).toMatchObject({ status: 403, code: 'insufficient_scope' })
    await server.command('orgs', 'create', 'poor')
    const poor = await server.command('keys', 'create', '--org', 'poor', '--scope', 'full_access')
    expect(await chat(String(poor['key']))).toMatchObject({ status: 402, code: 'insufficient_balance' })
  },
  LONG_MS,
)

test(
  'a rotated key goes on for the overlap; with none it ends within two seconds, and the new one calls',
  async () => {
    const first = await makeKey(owner, 'full_access')
    const rotate = (id: string, body: object) => call<MadeKey>(owner, 'POST', `/manage/v1/keys/${id}/rotate`, body)
    const second = await rotate(first.id, { overlap_seconds: 3_600 })
    expect([second.status, (await chat(first.key)).status, (await chat(second.body.key)).status]).toEqual([
      201, 200, 200,
    ])
    const third = await rotate(second.body.id, { overlap_seconds: 0 })
    expect(await msUntilEnded(second.body.key)).toBeLessThan(2_000)
    expect(await chat(second.body.key)).toMatchObject({ status: 401, code: 'invalid_api_key' })
    expect([(await chat(third.body.key)).status, (await chat(first.key)).status]).toEqual([200, 200])
  },
  LONG_MS,
)

test(
  'a member who was invited calls a model with a key; the removal ends the session, and the key within two seconds',
  async () => {
    const invited = await call(owner, 'POST', '/manage/v1/invitations', { email: 'bob@example.com' })
    expect(invited.status).toBe(201)
    const guest = await chromium.tab()
    await guest.open(await linkTo('bob@example.com'))
    await guest.submit({ name: 'Bob', new_password: PASSWORD }, 'Accept')
    expect(await guest.text()).toContain('as member')
    const { key } = await makeKey(guest, 'serverless:write')
    expect((await chat(key)).status).toBe(200)

    const session = await call<{ member_id: string }>(guest, 'GET', '/manage/v1/session')
    const removed = await call(owner, 'DELETE', `/manage/v1/members/${session.body.member_id}`)
    expect(removed.status).toBe(204)
    expect(await msUntilEnded(key)).toBeLessThan(2_000)
    await guest.open(`${base}/account`)
    expect(await guest.url()).toBe(`${base}/account/sign-in`)
  },
  LONG_MS,
)

test(
  'a link that an operator makes lets the last owner in again',
  async () => {
    const { url } = await server.command(
      'users',
      'reset-link',
      'ada@example.com',
      '--config',
      join(server.dataDir, 'tollgate.yaml'),
    )
    const tab = await chromium.tab()
    // The command knows the port of the settings alone.
    await tab.open(`${base}${new URL(String(url)).pathname}${new URL(String(url)).search}`)
    await tab.submit({ new_password: 'a third long phrase' }, 'Set the password')
    expect(await tab.text()).toContain('ada@example.com')
  },
  LONG_MS,
)
