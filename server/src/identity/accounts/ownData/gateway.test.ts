/** People export and erase their own data on the whole gateway: who may, what is refused, and what has ended in every process. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../../test/acceptance/ask.ts'
import { ACCOUNT_SETTINGS, type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { TurnedClock } from '../../../../test/clock.ts'
import { type SteppedProvider, startSteppedProvider } from '../../../../test/faults/steppedProvider.ts'
import { until } from '../../../../test/until.ts'
import { openVisitor, type Visitor } from '../../../../test/visitor.ts'

setDefaultTimeout(60_000)

const PASSWORD = 'a long enough phrase'
const EXPORT = '/manage/v1/account/export'
const ERASURE = '/manage/v1/account/erasure'

const settingsOf = (url: string) => `${ACCOUNT_SETTINGS}
providers:
  stepped: { dialect: openai, base_url: "${url}" }
models:
  - id: svc/stepped
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 100 }
    targets: [{ provider: stepped, model: stepped }]
`

let provider: SteppedProvider
let house: AccountsHouse
let second: AskedGateway
let owner: Visitor
beforeAll(async () => {
  provider = await startSteppedProvider()
  house = await openAccountsHouse({ settings: settingsOf(provider.url) })
  second = await openAskedGateway({ settings: settingsOf(provider.url), beside: house.gateway })
  owner = await house.owner()
})
afterAll(async () => {
  provider.stop()
  await second.close()
  await house.gateway.close()
})

const rows = <Row>(text: string, parameters: string[] = []) => house.gateway.database.query<Row>(text, parameters)
const json = async (response: Response | Promise<Response>) => (await response).json()
const who = (browser: Visitor) => json(browser.call('GET', '/manage/v1/session'))
const isSignedIn = async (browser: Visitor) => (await browser.open('/account')).status === 200
const erase = (browser: Visitor, password = PASSWORD) =>
  browser.fill('/account', { password, sure: 'yes' }, { action: '/account/erase' })
const put = (browser: Visitor, body: object = { password: PASSWORD }) => browser.call('PUT', ERASURE, body)
const isThere = async (email: string) => (await rows('select 1 from users where email = $1', [email])).length === 1

async function makeKey(browser: Visitor): Promise<string> {
  const { key } = await json(browser.call('POST', '/manage/v1/keys', { name: 'k', scope: 'full_access' }))
  return key
}

const canCall = async (gateway: AskedGateway, key: string) =>
  (await gateway.get({ key } as never, '/billing/balance')).status === 200

/** Makes the sessions of a person older than a recent sign-in. */
const makeStale = async (browser: Visitor) =>
  rows("update sessions set created_at = created_at - interval '11 minutes' where user_id = $1", [
    (await who(browser)).user.id,
  ])

describe('an export', () => {
  test('is of the person who is signed in alone', async () => {
    const member = await house.join(owner, 'exported@example.com')
    await makeKey(owner)
    const file = await json(member.call('GET', EXPORT))
    expect(file.user).toMatchObject({ name: 'exported@example.com', email: 'exported@example.com', operator: false })
    expect(file.memberships).toMatchObject([{ organization_name: 'default', role: 'member', removed_at: null }])
    expect(file.api_keys).toEqual([])
    for (const other of [OWNER.email, owner.address]) expect(JSON.stringify(file)).not.toContain(other)
    const own = await json(owner.call('GET', EXPORT))
    expect([own.user.operator, own.api_keys.length]).toEqual([true, 1])
  })

  test('is linked on the page of the account, and is the same file there', async () => {
    const member = await house.join(owner, 'linked@example.com')
    expect((await member.open('/account')).text).toContain('href="/account/export"')
    const page = await member.open('/account/export')
    expect(page.headers.get('Content-Disposition')).toMatch(/^attachment; filename="own-data-/)
    expect(page.headers.get('Cache-Control')).toBe('no-store')
    const [bySession, byPage] = [await json(member.call('GET', EXPORT)), JSON.parse(page.text)]
    expect({ ...byPage, exported_at: '' }).toEqual({ ...bySession, exported_at: '' })
  })

  test('needs a session, and one of the last ten minutes', async () => {
    const member = await house.join(owner, 'stale@example.com')
    const key = await makeKey(member)
    expect((await house.gateway.get({ key } as never, EXPORT)).status).toBe(401)
    expect((await house.browser().open('/account/export')).location).toBe('/account/sign-in')
    await makeStale(member)
    const refused = await member.call('GET', EXPORT)
    expect([refused.status, (await refused.json()).detail]).toEqual([403, expect.stringContaining('Sign in again')])
    const page = await member.open('/account/export')
    expect([page.status, page.text]).toEqual([403, expect.stringContaining('Sign in again')])
    expect(page.text).not.toContain('stale@example.com')
  })

  test('of many pages is whole, each row once, in the order of the log', async () => {
    const member = await house.join(owner, 'long@example.com')
    const { user, organization } = await who(member)
    await rows(
      `insert into audit_entries (id, organization_id, actor_kind, actor_id, action, created_at)
       select gen_random_uuid(), $1, 'user', $2, 'test.done', now() from generate_series(1, 1100)`,
      [organization.id, user.id],
    )
    const { audit_entries: entries } = await json(member.call('GET', EXPORT))
    const ids = entries
      .filter(({ action }: { action: string }) => action === 'test.done')
      .map(({ id }: { id: string }) => id)
    expect([ids.length, new Set(ids).size]).toEqual([1_100, 1_100])
    expect(ids).toEqual([...ids].sort())
  })

  test('is open twice at once for a person, and an end makes room', async () => {
    const member = await house.join(owner, 'twice@example.com')
    const headers = { Cookie: [...member.cookies].map(([name, value]) => `${name}=${value}`).join('; ') }
    const hanging = () => second.app.handle(new Request(`http://gateway.test${EXPORT}`, { headers }), PEER)
    const open = [await hanging(), await hanging()]
    expect(open.map(({ status }) => status)).toEqual([200, 200])
    const refused = await hanging()
    expect([refused.status, refused.headers.get('Retry-After')]).toEqual([429, '5'])
    await open[0]?.body?.cancel()
    await until(async () => {
      const again = await hanging()
      await again.body?.cancel()
      return again.status === 200
    })
    await open[1]?.body?.cancel()
  })

  test('breaks off when the session ends, so that nobody takes it for whole', async () => {
    const member = await house.join(owner, 'ended@example.com')
    const headers = { Cookie: [...member.cookies].map(([name, value]) => `${name}=${value}`).join('; ') }
    const answer = await second.app.handle(new Request(`http://gateway.test${EXPORT}`, { headers }), PEER)
    const reader = answer.body?.getReader()
    expect((await reader?.read())?.done).toBe(false)
    await member.fill('/account', {}, { action: '/account/sign-out' })
    const rest = async () => {
      while ((await reader?.read())?.done === false);
    }
    expect(await rest().catch(({ message }: Error) => message)).toBe('the session has ended')
  })
})

const PEER = { address: '127.0.0.1', setIdleTimeout: () => {} }

/** Somebody whose session and key are known in the second process, which streams an answer for the key. */
async function busyThere(email: string) {
  const member = await house.join(owner, email)
  const key = await makeKey(member)
  const there = openVisitor(second, '203.0.113.9')
  for (const [name, value] of member.cookies) there.cookies.set(name, value)
  expect([await isSignedIn(there), await canCall(second, key)]).toEqual([true, true])
  await rows('update accounts set balance_microcents = 1000000000 where organization_id = $1', [house.organizationId])
  const body = { model: 'svc/stepped', stream: true, messages: [{ role: 'user', content: 'Hello' }] }
  const responding = second.post({ key } as never, '/chat/completions', body)
  const asked = await provider.next()
  asked.says('one two three')
  const stream = (await responding).text()
  const ended = async () => {
    expect([await isSignedIn(member), await isSignedIn(there)]).toEqual([false, false])
    await until(async () => !(await canCall(second, key)) && !(await canCall(house.gateway, key)))
    expect(await stream).toContain('"code":"invalid_api_key"')
    await asked.cancelled
  }
  return { member, ended }
}

test("the removal of a member ends the person's session and keys, and what runs on them, in another process too", async () => {
  const { member, ended } = await busyThere('removed@example.com')
  const { member_id: id } = await who(member)
  expect((await owner.call('DELETE', `/manage/v1/members/${id}`)).status).toBe(204)
  await ended()
  expect(await isThere('removed@example.com')).toBe(true)
})

describe('an erasure', () => {
  test('ends sessions, keys and what runs on them in another process too', async () => {
    const { member, ended } = await busyThere('ends@example.com')
    expect((await put(member)).status).toBe(204)
    await ended()
    expect([...member.cookies.keys()].filter((name) => /session|browser/.test(name))).toEqual([])
    expect(await isThere('ends@example.com')).toBe(false)
  })

  test('makes room for another person with the address, who has none of the rights', async () => {
    const email = 'again@example.com'
    const first = await house.join(owner, email, 'admin')
    const [key, { user, member_id: memberId }] = [await makeKey(first), await who(first)]
    expect((await erase(first)).text).toContain('Your account is erased')
    expect((await house.browser().fill('/account/sign-in', { email, password: PASSWORD })).status).toBe(401)
    const again = await house.join(owner, email)
    const session = await who(again)
    expect(session).toMatchObject({ role: 'member', user: { email, operator: false } })
    expect([session.user.id === user.id, session.member_id === memberId]).toEqual([false, false])
    expect((await json(again.call('GET', '/manage/v1/keys'))).data).toEqual([])
    expect(await canCall(house.gateway, key)).toBe(false)
    const { audit_entries: entries } = await json(again.call('GET', EXPORT))
    expect(entries.map(({ action }: { action: string }) => action)).toEqual(['invitation.created', 'member.added'])
  })

  test('leaves the organization, its keys, and whom the person invited', async () => {
    const admin = await house.join(owner, 'leaves@example.com', 'admin')
    const shared = { name: 'shared', scope: 'full_access', owner: 'organization' }
    const { key } = await json(admin.call('POST', '/manage/v1/keys', shared))
    const invited = await house.join(admin, 'stays@example.com')
    await admin.call('POST', '/manage/v1/invitations', { email: 'open@example.com' })
    expect((await put(admin)).status).toBe(204)
    expect([await canCall(house.gateway, key), await isSignedIn(invited)]).toEqual([true, true])
    const { data } = await json(owner.call('GET', '/manage/v1/invitations?limit=1'))
    expect(data).toMatchObject([{ email: 'open@example.com', state: 'withdrawn' }])
    const members = (await json(owner.call('GET', '/manage/v1/members?limit=200'))).data
    expect(members.map(({ email }: { email: string }) => email)).not.toContain('leaves@example.com')
    const log = (await json(owner.call('GET', '/manage/v1/audit?limit=200'))).data
    expect(JSON.stringify(log)).not.toContain('leaves@example.com')
  })

  test('leaves an address that the person had before to somebody who has it now', async () => {
    const first = await house.join(owner, 'given-up@example.com')
    const change = { email: 'moved@example.com', password: PASSWORD }
    await first.fill('/account', change, { action: '/account/new-address' })
    await first.fill(await house.linkTo('moved@example.com'), {})
    const next = await house.join(owner, 'given-up@example.com')
    const file = await json(next.call('GET', EXPORT))
    expect(JSON.stringify(file)).not.toContain('moved@example.com')
    await next.call('POST', '/manage/v1/keys', { name: 'theirs', scope: 'read_only' })
    expect((await put(first)).status).toBe(204)
    expect(await isSignedIn(next)).toBe(true)
    const after = await json(next.call('GET', EXPORT))
    expect(after.invitations_received.map(({ email }: { email: string }) => email)).toEqual(['given-up@example.com'])
    expect(after.api_keys).toMatchObject([{ name: 'theirs', state: 'active' }])
  })

  test('a program whose login was approved gets no key', async () => {
    const member = await house.join(owner, 'device@example.com')
    const client = { client_id: 'tollgate-cli' }
    const { json: begun } = await house.gateway.ask({ path: '/manage/v1/device/code', body: client })
    const { user_code: code, device_code: device } = begun as { user_code: string; device_code: string }
    const path = (await member.fill('/account/device', { code })).location ?? ''
    const all = { serverless: 'write', billing: 'write', webhooks: 'write', instances: 'write' }
    await member.fill('/account/device', all, { action: path })
    expect((await put(member)).status).toBe(204)
    const grant = { ...client, grant_type: 'urn:ietf:params:oauth:grant-type:device_code', device_code: device }
    const asked = await house.gateway.ask({ path: '/manage/v1/device/token', body: grant })
    expect(asked.json).toMatchObject({ error: 'expired_token' })
  })

  test('is there for a person who is a member of no organization', async () => {
    const member = await house.join(owner, 'nowhere@example.com')
    const { member_id: id } = await who(member)
    await owner.call('DELETE', `/manage/v1/members/${id}`)
    await member.fill('/account/sign-in', { email: 'nowhere@example.com', password: PASSWORD })
    expect(JSON.parse((await member.open('/account/export')).text).memberships).toMatchObject([{ role: 'member' }])
    expect((await erase(member)).status).toBe(200)
    expect(await isThere('nowhere@example.com')).toBe(false)
  })
})

describe('an erasure is refused', () => {
  test('without the password, with a wrong one, or with the box not ticked', async () => {
    const member = await house.join(owner, 'refused@example.com')
    const key = await makeKey(member)
    for (const body of [{}, { password: 'a wrong long phrase' }, { password: '' }])
      expect((await put(member, body)).status).toBe(422)
    const wrong = await erase(member, 'a wrong long phrase')
    expect([wrong.status, wrong.text]).toEqual([422, expect.stringContaining('This is not your password')])
    const unsure = await member.fill('/account', { password: PASSWORD }, { action: '/account/erase' })
    expect([unsure.status, unsure.text]).toEqual([422, expect.stringContaining('Tick the box')])
    expect([await isSignedIn(member), await canCall(house.gateway, key)]).toEqual([true, true])
  })

  test('from another site, and without the CSRF token', async () => {
    const member = await house.join(owner, 'cross@example.com')
    expect((await member.call('PUT', ERASURE, { password: PASSWORD }, { Origin: 'https://evil.test' })).status).toBe(
      403,
    )
    expect((await member.call('PUT', ERASURE, { password: PASSWORD }, { 'X-CSRF-Token': 'x' })).status).toBe(403)
    const fields = { password: PASSWORD, sure: 'yes' }
    const more = { action: '/account/erase', headers: { Origin: 'https://evil.test' } }
    expect((await member.fill('/account', fields, more)).status).toBe(403)
    const forged = await member.fill('/account', { ...fields, csrf: 'x' }, { action: '/account/erase' })
    expect(forged.status).toBe(403)
    expect(await isThere('cross@example.com')).toBe(true)
  })

  test('to the last owner, with the name of the organization; nothing has changed then', async () => {
    const only = await house.join(owner, 'only@example.com', 'owner')
    const [key, { user }] = [await makeKey(only), await who(only)]
    const other = await house.gateway.customer()
    await rows("update organizations set name = 'Only Ltd' where id = $1", [other.organizationId])
    await rows(
      "insert into members (id, organization_id, user_id, role, created_at) values (gen_random_uuid(), $1, $2, 'owner', now())",
      [other.organizationId, user.id],
    )
    const before = await rows('select t::text as row from audit_entries t order by id')
    const refused = await put(only)
    expect([refused.status, (await refused.json()).detail]).toEqual([
      422,
      'This account is the last owner of “Only Ltd”. Make another member an owner there, or delete the organization, then try again.',
    ])
    const page = await erase(only)
    expect([page.status, page.text]).toEqual([422, expect.stringContaining('the last owner of “Only Ltd”')])
    expect([await isSignedIn(only), await canCall(house.gateway, key)]).toEqual([true, true])
    expect(await rows('select t::text as row from audit_entries t order by id')).toEqual(before)
    expect(await rows('select 1 from credentials where user_id = $1', [user.id])).toHaveLength(1)
    await rows("update members set role = 'admin' where user_id = $1 and organization_id = $2", [
      user.id,
      other.organizationId,
    ])
    expect((await put(only)).status).toBe(204)
  })

  test('to the last operator', async () => {
    const heir = await house.join(owner, 'heir@example.com', 'owner')
    const refused = await put(owner)
    expect([refused.status, (await refused.json()).detail]).toEqual([
      422,
      expect.stringContaining('the last operator of this server'),
    ])
    await rows('update users set is_operator = true where id = $1', [(await who(heir)).user.id])
    const helper = await house.join(owner, 'helper@example.com', 'owner')
    await rows('update users set is_operator = true where id = $1', [(await who(helper)).user.id])
    expect((await put(helper)).status).toBe(204)
    expect(await isSignedIn(owner)).toBe(true)
  })

  test('to a person without a password who signed in too long ago; a sign-in of the last minutes stands for it', async () => {
    const member = await house.join(owner, 'keyless@example.com')
    await rows('delete from credentials where user_id = $1', [(await who(member)).user.id])
    const formOf = (text: string) => /<form[^>]*"\/account\/erase"[\s\S]*?<\/form>/.exec(text)?.[0]
    expect(formOf((await owner.open('/account')).text)).toContain('type="password"')
    expect(formOf((await member.open('/account')).text)).toMatch(/name="sure"/)
    expect(formOf((await member.open('/account')).text)).not.toContain('type="password"')
    await makeStale(member)
    expect((await put(member, {})).status).toBe(403)
    const page = await member.fill('/account', { sure: 'yes' }, { action: '/account/erase' })
    expect([page.status, page.text]).toEqual([403, expect.stringContaining('Sign in again')])
    await rows('update sessions set created_at = now() where user_id = $1', [(await who(member)).user.id])
    expect((await put(member, {})).status).toBe(204)
  })
})

describe('guessing the password by it', () => {
  // Time stands still: a slow machine would give tokens back meanwhile.
  let still: AccountsHouse
  let victim: Visitor
  const WRONG = 'a wrong long phrase'
  beforeAll(async () => {
    still = await openAccountsHouse({ clock: new TurnedClock(Date.now()) })
    victim = await still.join(await still.owner(), 'victim@example.com')
  })
  afterAll(() => still.gateway.close())
  const signIn = (browser: Visitor, password: string) =>
    browser.fill(
      '/account/sign-in?again=yes',
      { email: 'victim@example.com', password },
      { action: '/account/sign-in' },
    )

  test('uses up what the browser may try at the sign-in, by route and by page together', async () => {
    const answers: number[] = []
    for (let count = 0; count < 10; count += 1)
      answers.push(
        count % 2 === 0 ? (await put(victim, { password: WRONG })).status : (await erase(victim, WRONG)).status,
      )
    expect(answers).toEqual(Array(10).fill(422))
    const refused = await put(victim)
    expect([refused.status, Number(refused.headers.get('Retry-After'))]).toEqual([429, 20])
    expect((await erase(victim)).status).toBe(429)
    expect((await signIn(victim, PASSWORD)).status).toBe(429)
  })

  test('counts by the mail address and the place where the browser is not known', async () => {
    const stranger = still.browser()
    const other = await still.join(await opened(still), 'other@example.com')
    for (const [name, value] of other.cookies) if (name !== 'tollgate_browser') stranger.cookies.set(name, value)
    for (let count = 0; count < 10; count += 1) expect((await put(stranger, { password: WRONG })).status).toBe(422)
    const neighbour = still.browser(stranger.address)
    const answers: number[] = []
    for (let count = 0; count < 11; count += 1) {
      const fields = { email: `p${count}@example.com`, password: WRONG }
      answers.push((await neighbour.fill('/account/sign-in', fields)).status)
    }
    expect(answers).toEqual([...Array(10).fill(401), 429])
  })

  /** The owner, signed in with a new browser. */
  async function opened(at: AccountsHouse): Promise<Visitor> {
    const browser = at.browser()
    await browser.fill('/account/sign-in', { email: OWNER.email, password: OWNER.new_password })
    return browser
  }
})
