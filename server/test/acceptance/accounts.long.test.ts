/** People and their browser against the real server: set up, sign out and in, a forgotten password, an invitation. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Chromium, openChromium, type Tab } from '../chromium.ts'
import { startServer, type TestServer } from '../server.ts'

const LONG_MS = 120_000
const PASSWORD = 'a long enough phrase'

let server: TestServer
let chromium: Chromium
let base: string
beforeAll(async () => {
  server = await startServer({ settings: 'accounts: {}\n' })
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
async function call(tab: Tab, method: string, path: string, body: object): Promise<{ status: number; body: never }> {
  await tab.open(`${base}/v1/health`)
  await tab.evaluate(` (async () => {
    const session = await (await fetch('/manage/v1/session')).json()
    const response = await fetch(${JSON.stringify(path)}, {
      method: ${JSON.stringify(method)},
      headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': session.csrf_token },
      body: ${JSON.stringify(JSON.stringify(body))},
    })
    window.answer = JSON.stringify({ status: response.status, body: await response.json() })
  })()`)
  for (let looks = 0; looks < 200; looks += 1) {
    const answer = await tab.evaluate('window.answer')
    if (typeof answer === 'string') return JSON.parse(answer)
    await Bun.sleep(25)
  }
  throw new Error('the page got no answer')
}

test(
  'set up, key, call, forgotten password, invitation',
  async () => {
    const owner = await chromium.tab()
    const facts = JSON.parse(server.output().split('\n')[0] ?? '{}')
    const setUpUrl = (await readFile(facts.set_up_file, 'utf8')).trim()
    expect(setUpUrl).toStartWith(`${base}/account/set-up?token=`)
    await owner.open(setUpUrl)
    await owner.submit({ name: 'Ada', email: 'ada@example.com', new_password: PASSWORD }, 'Make the account')
    expect(await owner.url()).toBe(`${base}/account`)
    expect(await owner.text()).toContain('as owner')
    expect(await owner.evaluate('document.cookie')).toBe('')

    const made = await call(owner, 'POST', '/manage/v1/keys', { name: 'mine', scope: 'full_access' })
    expect(made.status).toBe(201)
    const { key } = made.body as { key: string }
    const chat = await fetch(`${server.url}/chat/completions`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: 'svc/demo', messages: [{ role: 'user', content: 'hi' }] }),
    })
    expect([200, 404]).toContain(chat.status)

    await owner.open(`${base}/account`)
    await owner.submit({}, 'Sign out')
    expect(await owner.url()).toBe(`${base}/account/sign-in`)
    await owner.submit({ email: 'ada@example.com', password: 'wrong wrong wrong' }, 'Sign in')
    expect(await owner.text()).toContain('The address or the password is wrong.')
    await owner.open(`${base}/account/forgotten`)
    await owner.submit({ email: 'ada@example.com' }, 'Send the link')
    expect(await owner.text()).toContain('a mail with a link is on its way')
    await owner.open(await linkTo('ada@example.com'))
    await owner.submit({ new_password: 'quite another phrase' }, 'Set the password')
    expect(await owner.url()).toBe(`${base}/account`)

    const invited = await call(owner, 'POST', '/manage/v1/invitations', { email: 'bob@example.com' })
    expect(invited.status).toBe(201)
    const guest = await chromium.tab()
    await guest.open(await linkTo('bob@example.com'))
    await guest.submit({ name: 'Bob', new_password: PASSWORD }, 'Accept')
    expect(await guest.text()).toContain('as member')
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
