/** The pages of accounts on the whole gateway: kept fields, organizations of one name, ways back. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ACCOUNT_SETTINGS, type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { until } from '../../../../test/until.ts'
import { BROWSER_ORIGIN, type BrowsedPage, type Visitor } from '../../../../test/visitor.ts'

const OPEN = `accounts: { registration: true }\npublic_url: ${BROWSER_ORIGIN}\n`
const SECRET = 'Sesame-5-open'
const INSTANCES = `
instances:
  driver: { kind: command, path: /bin/true }
  gpu_types:
    - { name: a100, vram_gb: 80, count: 4, price_per_hour_cents: 120, disk_gb_max: 100 }
  apps:
    - { name: server, image: 'server:1', port: 8080, vram_gb_min: 40, models: [{ name: small, vram_gb: 20 }] }
`

let house: AccountsHouse
let owner: Visitor
beforeAll(async () => {
  house = await openAccountsHouse({ settings: OPEN })
  const path = await house.setUpPath()
  const typed = { name: 'Ada', email: 'ada@', new_password: SECRET }
  keptBySetUp = await house.browser().fill(path, typed)
  owner = await house.owner()
}, 60_000)
afterAll(() => house.gateway.close())

let keptBySetUp: BrowsedPage

const shownIn = (text: string, name: string) => new RegExp(`name="${name}"[^>]* value="([^"]*)"`).exec(text)?.[1]
const organizationOf = async (browser: Visitor) =>
  (await (await browser.call('GET', '/manage/v1/session')).json()).organization.id as string

/** Registers somebody with an organization of a name; returns the browser that is signed in. */
async function register(email: string, organization: string): Promise<Visitor> {
  await house.browser().fill('/account/register', { email })
  const own = house.browser()
  const fields = { name: 'Grace', organization, new_password: OWNER.new_password }
  expect((await own.fill(await house.linkTo(email), fields)).location).toBe('/account')
  return own
}

/** Has somebody who is signed in become an owner of the organization of `by`, too. */
async function joinToo(by: Visitor, browser: Visitor, email: string): Promise<void> {
  await by.call('POST', '/manage/v1/invitations', { email, role: 'owner' })
  expect((await browser.fill(await house.linkTo(email), {})).location).toBe('/account')
}

describe('a refused form keeps what was typed, but no password:', () => {
  const check = ({ status, text }: BrowsedPage, kept: Readonly<Record<string, string>>) => {
    expect([status >= 400 && status < 500, text.includes(SECRET)]).toEqual([true, false])
    expect(Object.fromEntries(Object.keys(kept).map((name) => [name, shownIn(text, name)]))).toEqual(kept)
  }

  test('set-up', () => check(keptBySetUp, { name: 'Ada', email: 'ada@' }))

  test('sign-in', async () => {
    const email = '"<b>@example.com'
    check(await house.browser().fill('/account/sign-in', { email, password: SECRET }), {
      email: '&quot;&lt;b&gt;@example.com',
    })
  })

  test('registration', async () => {
    check(await house.browser().fill('/account/register', { email: 'admin@localhost' }), { email: 'admin@localhost' })
    await house.browser().fill('/account/register', { email: 'new@example.com' })
    const typed = { name: 'New', organization: 'New & Co', new_password: 'password123' }
    const answer = await house.browser().fill(await house.linkTo('new@example.com'), typed)
    check(answer, { name: 'New', organization: 'New &amp; Co' })
    expect(answer.text).not.toContain('password123')
  })

  test('an invitation', async () => {
    await owner.call('POST', '/manage/v1/invitations', { email: 'guest@example.com', role: 'member' })
    const typed = { name: 'Guest', new_password: 'guest@example.com' }
    const answer = await house.browser().fill(await house.linkTo('guest@example.com'), typed)
    check(answer, { name: 'Guest' })
    expect(answer.text).toContain('holds your mail address')
  })

  test('a new address', async () => {
    const typed = { email: 'ada@new', password: SECRET }
    check(await owner.fill('/account', typed, { action: '/account/new-address' }), { email: 'ada@new' })
  })
})

describe('two organizations of one name', () => {
  let twice: Visitor
  let ids: readonly [string, string]
  beforeAll(async () => {
    twice = await register('twice@example.com', 'Twins')
    const first = await organizationOf(twice)
    await joinToo(await register('other@example.com', 'Twins'), twice, 'twice@example.com')
    ids = [first, await organizationOf(twice)]
  })

  test('are told apart by role and id, on the page of the account and of a device login', async () => {
    expect(ids[0]).not.toBe(ids[1])
    const { text } = await twice.open('/account')
    expect(text).toContain(`You act for the organization “Twins” (owner, id …${ids[1].slice(-8)}).`)
    expect(text).toContain(`Act for “Twins” (owner, id …${ids[0].slice(-8)})`)
    expect((await twice.open('/account/device')).text).toContain(`“Twins” (owner, id …${ids[1].slice(-8)})`)
    expect((await owner.open('/account')).text).toContain('You act for the organization “default” as owner.')
  })

  test('after one is deleted, the page says which one, and for which one the browser acts now', async () => {
    const fields = { organization: ids[1], name: 'Twins' }
    const { status, text } = await twice.fill('/account', fields, { action: '/account/delete-organization' })
    const [kept, deleted] = ids.map((id) => `“Twins” (owner, id …${id.slice(-8)})`)
    expect([status, text]).toEqual([
      200,
      expect.stringContaining(`The organization ${deleted} is deleted. You act for ${kept} now.`),
    ])
  })
})

describe('the page of the account', () => {
  test('tells the balance, and how a program gets a key; where payments are on, how to pay', async () => {
    const lin = await register('lin@example.com', 'Lin')
    const [own, first] = [(await lin.open('/account')).text, (await owner.open('/account')).text]
    expect(own).toContain('The balance of the organization is $0.00.</p>')
    expect(first).toContain('The balance of the organization is $25.00.</p>')
    for (const text of [own, first]) {
      expect(text).toContain(`<code>tollgate login --server ${BROWSER_ORIGIN}</code>`)
      expect(text).toContain('<a href="/account/device">')
      expect(text).not.toContain('tollgate topup')
    }
    const paying = await openAccountsHouse({ settings: `${ACCOUNT_SETTINGS}payments: { provider: local }\n` })
    expect((await (await paying.owner()).open('/account')).text).toContain('<code>tollgate topup 20</code>')
    await paying.gateway.close()
  })

  test('ends with leaving and deleting; the last owner is told why there is no leaving', async () => {
    const alone = await register('alone@example.com', 'Alone')
    const { text } = await alone.open('/account')
    expect(text).not.toContain('action="/account/leave"')
    expect(text).toContain('You are the last owner of “Alone”')
    await joinToo(alone, await register('second@example.com', 'Second'), 'second@example.com')
    const shared = (await alone.open('/account')).text
    const places = ['/account/erase', '/account/leave', '/account/delete-organization'].map((path) =>
      shared.indexOf(`action="${path}"`),
    )
    expect(places).toEqual([...places].sort((one, other) => one - other))
    expect(places).not.toContain(-1)
  })

  test('is in light and in dark, and has a navigation that pages before the sign-in have not', async () => {
    const [own, before] = [await owner.open('/account'), await house.browser().open('/account/sign-in')]
    for (const { text } of [own, before]) {
      expect(text).toContain('color-scheme:light dark')
      expect(text).toContain('<header><strong>Tollgate</strong>')
    }
    expect([own, before].map(({ text }) => text.includes('action="/account/sign-out"'))).toEqual([true, false])
  })
})

test('the address of a form that is opened leads back to the page with it', async () => {
  const paths = ['password', 'leave', 'organization', 'delete-organization', 'new-address', 'end-session', 'sign-out']
  for (const path of [...paths, '']) expect((await owner.open(`/account/${path}`)).location).toBe('/account')
  expect((await owner.open('/account/device/deny?login=x')).location).toBe('/account/device')
  const root = await house.gateway.app.handle(new Request('http://gateway.test/'), {
    address: '127.0.0.1',
    setIdleTimeout: () => {},
  })
  expect([root.status, root.headers.get('Location')]).toEqual([303, '/account'])
})

test.each([
  ['localhost:8080', `${BROWSER_ORIGIN}/account/sign-in?next=device`],
  ['127.0.0.1:8080', null],
  // A proxy that names itself: a redirect would come back here.
  ['gateway.internal:8080', null],
  ['localhost:3000', null],
])('a page that is opened at %s leads to %p', async (host, location) => {
  const answer = await house.gateway.send('/account/sign-in?next=device', { headers: { Host: host } })
  expect(answer.headers.get('Location')).toBe(location)
})

test('a mistyped address is answered with a page where a browser asks, and with a problem where a program does', async () => {
  const answers = ['text/html,application/xhtml+xml', '*/*'].map((accept) =>
    house.gateway.send('/account/sign-inn', { headers: { Accept: accept } }),
  )
  const [page, problem] = await Promise.all(answers)
  expect([page?.status, page?.headers.get('Content-Type')]).toEqual([404, 'text/html; charset=utf-8'])
  expect(await page?.text()).toContain('<a href="/account">')
  expect(page?.headers.get('X-Request-Id')).toMatch(/^[0-9a-f]{32}$/)
  expect([problem?.status, problem?.headers.get('Content-Type')]).toEqual([404, 'application/problem+json'])
})

test('a broken link is said once', async () => {
  const { text } = await house.browser().open('/account/reset?token=guessed')
  expect(text.match(/This link does not work/g)).toHaveLength(2) // The title of the window, and of the page.
  for (const path of ['/account/forgotten', '/account/sign-in']) expect(text).toContain(`<a href="${path}">`)
})

test('on the page of the sign-in the button comes right after the password', async () => {
  const { text } = await house.browser().open('/account/sign-in')
  const places = ['name="password"', '<button>', '/account/forgotten', '/account/register'].map((part) =>
    text.indexOf(part),
  )
  expect(places).toEqual([...places].sort((one, other) => one - other))
  expect(places).not.toContain(-1)
})

test('the mail of an invitation names who invites, and where', async () => {
  await owner.call('POST', '/manage/v1/invitations', { email: 'mailed@example.com', role: 'admin' })
  await house.linkTo('mailed@example.com')
  const path = join(house.gateway.dataDirectory, 'account-links')
  const mails = await readFile(path, 'utf8')
  expect(mails).toContain(
    `"Ada" (ada@example.com) invites you to become an admin of the organization "default" on the Tollgate server ${new URL(BROWSER_ORIGIN).host}.`,
  )
})

test('links that stand in for mails are in a file that only its owner may read; the log has its path, and no link', async () => {
  const path = join(house.gateway.dataDirectory, 'account-links')
  await house.browser().fill('/account/forgotten', { email: OWNER.email })
  const [, token = ''] = /token=(.+)/.exec(await house.linkTo(OWNER.email)) ?? []
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  const { logs } = house.gateway
  await until(async () => logs.some((line) => JSON.parse(line).path === path))
  expect(logs.find((line) => JSON.parse(line).path === path)).toContain('a link was written to a file')
  expect(token).toMatch(/^[\w-]{32,}$/)
  expect(logs.join()).not.toContain(token)
  expect(logs.join()).not.toContain('token=')
})

describe('at a public https address, without a mail server,', () => {
  const origin = 'https://gateway.example.com'
  const headers = { Origin: origin }
  let off: AccountsHouse
  let signedIn: Visitor
  let setUp: BrowsedPage
  beforeAll(async () => {
    off = await openAccountsHouse({ settings: `accounts: { registration: true }\npublic_url: ${origin}\n` })
    signedIn = off.browser()
    setUp = await signedIn.fill(await off.setUpPath(), OWNER, { headers })
  })
  afterAll(() => off.gateway.close())

  test('cookies are for https alone, and no other host can set them', async () => {
    expect(setUp.location).toBe('/account')
    expect(setUp.headers.getSetCookie()).toContainEqual(
      expect.stringMatching(
        /^__Host-tollgate_session=[\w-]{32,}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=604800; Secure$/,
      ),
    )
    const form = await off.browser().open('/account/sign-in')
    const all = [...setUp.headers.getSetCookie(), ...form.headers.getSetCookie()]
    expect(all.length).toBeGreaterThan(2)
    for (const cookie of all) expect(cookie).toMatch(/^__Host-tollgate_\w+=[^;]*; Path=\/; HttpOnly; .*; Secure$/)
    // A cookie of the name that counts on plain http is that of no session.
    const token = signedIn.cookies.get('__Host-tollgate_session') ?? ''
    const planted = off.browser()
    planted.cookies.set('tollgate_session', token)
    const statuses = [(await signedIn.open('/account')).status, (await planted.open('/account')).status]
    expect(statuses).toEqual([200, 303])
    const out = await signedIn.fill('/account', {}, { action: '/account/sign-out', headers })
    expect(out.headers.getSetCookie()).toContainEqual(
      expect.stringMatching(/^__Host-tollgate_session=; Path=\/; HttpOnly; SameSite=Lax; Max-Age=0; Secure$/),
    )
    await signedIn.fill('/account/sign-in', { email: OWNER.email, password: OWNER.new_password }, { headers })
  })

  test('registration is not linked', async () => {
    expect((await off.browser().open('/account/sign-in')).text).not.toContain('/account/register')
    expect((await house.browser().open('/account/sign-in')).text).toContain('/account/register')
  })

  test('no link is made, written to a file or logged', async () => {
    const [email, browser] = ['mailed@example.com', off.browser()]
    const csrf = shownIn((await browser.open('/account/sign-in')).text, 'csrf') ?? ''
    for (const page of ['/account/forgotten', '/account/register']) {
      const { status, text } = await browser.fill(page, { email: OWNER.email, csrf }, { headers })
      expect([status, text]).toEqual([503, expect.stringContaining('sends no mail')])
    }
    const invited = await signedIn.call('POST', '/manage/v1/invitations', { email, role: 'member' }, headers)
    expect([invited.status, await invited.text()]).toEqual([422, expect.stringContaining('smtp')])
    const { database, dataDirectory, logs } = off.gateway
    expect(await database.query("select 1 from jobs where kind = 'account link'")).toEqual([])
    expect(await database.query("select 1 from account_links where purpose <> 'set_up'")).toEqual([])
    expect(await readdir(dataDirectory)).not.toContain('account-links')
    expect(logs.filter((line) => /token=|account-links|written to a file/.test(line))).toEqual([])
  })
})

test('instances are offered to a program only where this server has them', async () => {
  const settings = `${ACCOUNT_SETTINGS}${INSTANCES}`
  const renting = await openAccountsHouse({ settings })
  const offered = async (at: AccountsHouse, browser: Visitor) => {
    const body = { client_id: 'tollgate-cli', name: 'laptop' }
    const { json } = await at.gateway.ask({ path: '/manage/v1/device/code', body })
    const { user_code: code } = json as { user_code: string }
    const { location } = await browser.fill('/account/device', { code })
    const { text } = await browser.open(location ?? '')
    return ['serverless', 'instances'].map((resource) => text.includes(`<select name="${resource}">`))
  }
  expect([await offered(house, owner), await offered(renting, await renting.owner())]).toEqual([
    [true, false],
    [true, true],
  ])
  await renting.gateway.close()
})
