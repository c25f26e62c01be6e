/** The pages of accounts on the whole gateway: set up, sign in, passwords, sessions. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { TurnedClock } from '../../../../test/clock.ts'
import { BROWSER_ORIGIN, type Visitor } from '../../../../test/visitor.ts'

const PASSWORD = OWNER.new_password
const SIGN_IN = { email: OWNER.email, password: PASSWORD }

let house: AccountsHouse
beforeAll(async () => {
  house = await openAccountsHouse()
})
afterAll(() => house.gateway.close())

async function signIn(browser: Visitor, fields = SIGN_IN) {
  return browser.fill('/account/sign-in', fields)
}

const isSignedIn = async (browser: Visitor) => (await browser.open('/account')).status === 200

describe('before anybody has an account', () => {
  test('nobody signs in, and no page opens without the link', async () => {
    const browser = house.browser()
    expect((await signIn(browser)).status).toBe(401)
    expect((await browser.open('/account')).location).toBe('/account/sign-in')
    expect((await browser.open('/account/set-up')).status).toBe(404)
    expect((await browser.open('/account/set-up?token=guessed')).status).toBe(404)
    expect((await browser.fill('/account/set-up?token=guessed', OWNER)).status).toBe(403)
  })

  test('a newer link ends an older one; a wrong value keeps the link', async () => {
    const older = await house.setUpPath()
    const newer = await house.setUpPath()
    const browser = house.browser()
    expect((await browser.open(older)).status).toBe(404)
    const short = await browser.fill(newer, { ...OWNER, new_password: 'short' })
    expect([short.status, short.text]).toEqual([422, expect.stringContaining('10 to 128 characters')])
    expect((await browser.open(newer)).status).toBe(200)
  })

  test.each(['admin@localhost', 'admin@127.0.0.1', 'ada@b\u00fccher.example', 'a/b@example.com'])(
    'an address with which nobody could sign in is refused at once: %s',
    async (email) => {
      const answer = await house.browser().fill(await house.setUpPath(), { ...OWNER, email })
      expect([answer.status, answer.text]).toEqual([422, expect.stringContaining('This mail address can')])
    },
  )

  test('of two people who use the link at once one is set up; it works no more then', async () => {
    const path = await house.setUpPath()
    // Both have the page before either sends its form.
    const { promise: bothOpen, resolve } = Promise.withResolvers<void>()
    let open = 0
    const onOpen = () => {
      open += 1
      if (open === 2) resolve()
      return bothOpen
    }
    const emails = [OWNER.email, 'eve@example.com']
    const answers = await Promise.all(
      emails.map((email) => house.browser().fill(path, { ...OWNER, email }, { onOpen })),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([303, 404])
    expect((await house.browser().open(path)).status).toBe(404)
    const people = await house.gateway.database.query('select is_operator, email_verified from users')
    expect(people).toEqual([{ is_operator: true, email_verified: true }])
    const members = await house.gateway.database.query('select organization_id, role from members')
    expect(members).toEqual([{ organization_id: house.organizationId, role: 'owner' }])
    // The tests below sign in by this address, whichever of the two won.
    await house.gateway.database.query('update users set email = $1', [OWNER.email])
  })
})

describe('signing in', () => {
  test.each([
    ['nobody has', 'eve@example.com'],
    ['has a NUL', 'a\0b@example.com'],
    ['is a NUL', '\0'],
    ['has half a character', '\ud800@example.com'],
    ['is none', 'x'.repeat(1_000)],
  ])('with an address that %s is answered as with any wrong one', async (_, email) => {
    const { status, text } = await signIn(house.browser(), { email, password: PASSWORD })
    expect([status, text]).toEqual([401, expect.stringContaining('The address or the password is wrong.')])
  })

  test('asks for a new password of an address with a NUL are answered as any', async () => {
    const [wrong, known] = [house.browser(), house.browser()]
    const answers = [
      await wrong.fill('/account/forgotten', { email: 'a\0b@example.com' }),
      await known.fill('/account/forgotten', { email: 'eve@example.com' }),
    ]
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
  })

  test('begins a session with a cookie that scripts and other sites do not get', async () => {
    const browser = house.browser()
    const answer = await signIn(browser)
    expect([answer.status, answer.location]).toEqual([303, '/account'])
    const [cookie = ''] = answer.headers.getSetCookie()
    expect(cookie).toMatch(/^tollgate_session=[\w-]{32,}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=604800$/)
    const account = await browser.open('/account')
    expect(account.text).toContain(OWNER.email)
    expect(account.headers.get('Cache-Control')).toBe('no-store')
  })

  test('the token is in no row, and the address is that of the browser', async () => {
    const browser = house.browser()
    await signIn(browser)
    const token = browser.cookies.get('tollgate_session') ?? ''
    const rows = await house.gateway.database.query<{ token: string; ip_address: string; user_agent: string }>(
      'select token, ip_address, user_agent from sessions where ip_address = $1',
      [browser.address],
    )
    expect(rows).toEqual([
      { token: expect.stringMatching(/^[0-9a-f]{64}$/), ip_address: browser.address, user_agent: 'test browser' },
    ])
    expect(JSON.stringify(rows)).not.toContain(token)
  })

  test('a new sign-in has a new token, and ends the session that the browser had', async () => {
    const browser = house.browser()
    await signIn(browser)
    const first = browser.cookies.get('tollgate_session') ?? ''
    // As by a second tab: its page was open before.
    const page = house.browser(browser.address)
    page.cookies.set('tollgate_form', 'known')
    await signIn(page)
    expect(page.cookies.get('tollgate_session')).not.toBe(first)
    browser.cookies.set('tollgate_session', 'planted')
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('a wrong password and an unknown address are answered alike', async () => {
    const wrong = await signIn(house.browser(), { ...SIGN_IN, password: 'another long phrase' })
    const unknown = await signIn(house.browser(), { email: 'nobody@example.com', password: PASSWORD })
    const bare = (text: string) => text.replace(/value="[^"]*"/g, '')
    expect(wrong.status).toBe(401)
    expect(unknown.status).toBe(401)
    expect(bare(unknown.text)).toBe(bare(wrong.text))
  })

  test.each(['', 'no address', 'x'.repeat(5_000), "' or 1=1 --", 'a\0@example.com', 'a\ud800@example.com'])(
    'the address %p is answered as an unknown one',
    async (email) => {
      expect((await signIn(house.browser(), { email, password: PASSWORD })).status).toBe(401)
    },
  )

  test('guessing is slowed down: by place, and by address from many places, known or not', async () => {
    // Time stands still: a slow machine would give tokens back meanwhile.
    const still = await openAccountsHouse({ clock: new TurnedClock(Date.now()) })
    const browser = still.browser()
    const answers: number[] = []
    for (let count = 0; count < 22; count += 1)
      answers.push((await signIn(browser, { email: `p${count}@example.com`, password: PASSWORD })).status)
    expect(answers).toEqual([...Array(20).fill(401), 429, 429])
    const victim: number[] = []
    for (let count = 0; count < 32; count += 1)
      victim.push((await signIn(still.browser(), { email: 'victim@example.com', password: PASSWORD })).status)
    expect(victim).toEqual([...Array(30).fill(401), 429, 429])
    expect((await signIn(still.browser(), { email: 'another@example.com', password: PASSWORD })).status).toBe(401)
    await still.gateway.close()
  }, 120_000)

  test('nobody is locked out by the failures of others: a browser that signed in before still gets in', async () => {
    const still = await openAccountsHouse({ clock: new TurnedClock(Date.now()) })
    const own = await still.owner()
    await own.fill('/account', {}, { action: '/account/sign-out' })
    for (let count = 0; count < 32; count += 1)
      await signIn(still.browser(), { ...SIGN_IN, password: 'a wrong long phrase' })
    const neighbour = still.browser(own.address)
    for (let count = 0; count < 22; count += 1)
      await signIn(neighbour, { email: `p${count}@example.com`, password: PASSWORD })
    expect((await signIn(still.browser())).status).toBe(429)
    expect((await signIn(own)).location).toBe('/account')
    await own.fill('/account', {}, { action: '/account/sign-out' })
    // The mark is for this account alone, and has a limit too.
    expect((await signIn(own, { email: 'other@example.com', password: PASSWORD })).status).toBe(429)
    const wrong: number[] = []
    for (let count = 0; count < 11; count += 1)
      wrong.push((await signIn(own, { ...SIGN_IN, password: 'a wrong long phrase' })).status)
    expect(wrong).toEqual([...Array(9).fill(401), 429, 429])
    await still.gateway.close()
  }, 120_000)

  test('a new password ends the marks of all browsers but the one in which it was changed', async () => {
    const still = await openAccountsHouse({ clock: new TurnedClock(Date.now()) })
    const [own, other] = [await still.owner(), still.browser()]
    await signIn(other)
    const changed = { password: PASSWORD, new_password: 'another long phrase' }
    expect((await own.fill('/account', changed, { action: '/account/password' })).status).toBe(200)
    const again = { email: OWNER.email, password: 'another long phrase' }
    for (let count = 0; count < 30; count += 1)
      await signIn(still.browser(), { ...again, password: 'a wrong long phrase' })
    expect((await signIn(other, again)).status).toBe(429)
    await own.fill('/account', {}, { action: '/account/sign-out' })
    expect((await signIn(own, again)).location).toBe('/account')
    await still.gateway.close()
  }, 120_000)

  test('signing out ends the session, not only its cookie', async () => {
    const browser = house.browser()
    await signIn(browser)
    const token = browser.cookies.get('tollgate_session') ?? ''
    const answer = await browser.fill('/account', {}, { action: '/account/sign-out' })
    expect([answer.location, browser.cookies.has('tollgate_session')]).toEqual(['/account/sign-in', false])
    browser.cookies.set('tollgate_session', token)
    expect(await isSignedIn(browser)).toBe(false)
  })
})

describe('a form', () => {
  test.each([['[null]'], ['[[]]'], ['[{"name":"csrf","value":{"toString":null}}]'], ['{}'], ['null']])(
    'that is JSON with no fields, %s, is refused as one without a token',
    async (body) => {
      for (const path of ['/account/sign-in', '/account/forgotten', '/account/password']) {
        const headers = { 'Content-Type': 'application/json', Origin: BROWSER_ORIGIN }
        expect((await house.gateway.send(path, { method: 'POST', body, headers })).status).toBe(403)
      }
    },
  )

  test.each<[string, Record<string, string>]>([
    ['another site', { Origin: 'https://evil.test' }],
    ['a hidden origin', { Origin: 'null' }],
    ['another port of this host', { Origin: 'http://127.0.0.1:9999' }],
  ])('from %s changes nothing', async (_name, headers) => {
    const browser = house.browser()
    expect((await browser.fill('/account/sign-in', SIGN_IN, { headers })).status).toBe(403)
    await signIn(browser)
    const out = await browser.fill('/account', {}, { action: '/account/sign-out', headers })
    expect([out.status, await isSignedIn(browser)]).toEqual([403, true])
  })

  test("with no token, or another browser's, changes nothing", async () => {
    const [browser, other] = [house.browser(), house.browser()]
    await signIn(browser)
    await signIn(other)
    const theirs = /name="csrf" value="([^"]*)"/.exec((await other.open('/account')).text)?.[1] ?? ''
    for (const csrf of ['', theirs]) {
      const out = await browser.fill('/account', { csrf }, { action: '/account/sign-out' })
      expect([out.status, await isSignedIn(browser)]).toEqual([403, true])
    }
  })
})

describe('a password', () => {
  const NEXT = 'quite another phrase'

  test('is changed with the old one alone; other sessions end', async () => {
    const [browser, other] = [house.browser(), house.browser()]
    await signIn(browser)
    await signIn(other)
    const wrong = { password: 'not the old one', new_password: NEXT }
    const refused = await browser.fill('/account', wrong, { action: '/account/password' })
    expect([refused.status, await isSignedIn(other)]).toEqual([422, true])
    const right = { password: PASSWORD, new_password: NEXT }
    expect((await browser.fill('/account', right, { action: '/account/password' })).status).toBe(200)
    expect([await isSignedIn(browser), await isSignedIn(other)]).toEqual([true, false])
    expect((await signIn(house.browser())).status).toBe(401)
  })

  test('that was forgotten is set by a link of one use, which ends all sessions', async () => {
    const signed = house.browser()
    await signIn(signed, { ...SIGN_IN, password: NEXT })
    const browser = house.browser()
    const asked = await browser.fill('/account/forgotten', { email: OWNER.email.toUpperCase() })
    const unknown = await house.browser().fill('/account/forgotten', { email: 'nobody@example.com' })
    expect([asked.status, asked.text]).toEqual([unknown.status, unknown.text])
    const path = await house.linkTo(OWNER.email)
    expect((await browser.open(path)).status).toBe(200)
    expect((await browser.fill(path, { new_password: 'a third long phrase' })).status).toBe(303)
    expect((await browser.fill(path, { new_password: PASSWORD })).status).toBe(403)
    expect((await browser.open(path)).status).toBe(404)
    expect([await isSignedIn(signed), await isSignedIn(browser)]).toEqual([false, true])
  })
})
