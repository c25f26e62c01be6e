/** Passkeys on the whole gateway: a device in software, honest and not. */

import { afterAll, beforeAll, describe, expect, spyOn, test } from 'bun:test'
import { ACCOUNT_SETTINGS, type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import {
  type Dishonest,
  type PasskeyOptions,
  passkeyOptionsIn,
  type SoftPasskey,
  softPasskey,
} from '../../../../test/softPasskey.ts'
import { BROWSER_ORIGIN, type Visitor } from '../../../../test/visitor.ts'
import { PASSKEYS_MOST } from './passkey.ts'

const SETTINGS = ACCOUNT_SETTINGS.replace('accounts: {}', 'accounts: { passkeys: true }')
const NEW = '/account/passkeys/new'
const SIGN_IN = '/account/passkey'

let house: AccountsHouse
let owner: Visitor
let member: Visitor
beforeAll(async () => {
  house = await openAccountsHouse({ settings: SETTINGS })
  owner = await house.owner()
  member = await house.join(owner, 'member@example.com')
})
afterAll(() => house.gateway.close())

async function optionsOn(browser: Visitor, path: string): Promise<PasskeyOptions> {
  return passkeyOptionsIn((await browser.open(path)).text)
}

/** Adds a passkey; the page with the form was opened by this. */
async function add(browser: Visitor, device: SoftPasskey, name = 'laptop', dishonest: Dishonest = {}) {
  const answer = device.register(await optionsOn(browser, NEW), dishonest)
  return browser.fill('/account', { name, answer }, { action: NEW })
}

async function send(browser: Visitor, answer: string) {
  return browser.fill('/account/sign-in?again=yes', { answer }, { action: SIGN_IN })
}

async function signIn(browser: Visitor, device: SoftPasskey, dishonest: Dishonest = {}) {
  return send(browser, device.signIn(await optionsOn(browser, SIGN_IN), dishonest))
}

const isSignedIn = async (browser: Visitor) => (await browser.open('/account')).status === 200

const rows = (text: string) => house.gateway.database.query<Record<string, unknown>>(text)

/** The ids of the passkeys on a person's page, in their order. */
async function idsOf(browser: Visitor): Promise<string[]> {
  const { text } = await browser.open('/account/passkeys')
  return [...new Set([...text.matchAll(/name="passkey" value="([^"]*)"/g)].map(([, id]) => id ?? ''))]
}

test('without the setting there are none', async () => {
  const off = await openAccountsHouse()
  const browser = await off.owner()
  for (const path of [SIGN_IN, NEW, '/account/passkeys']) expect((await browser.open(path)).status).toBe(404)
  expect((await browser.open('/account')).text).not.toContain('passkey')
  expect((await off.browser().open('/account/sign-in')).text).not.toContain('passkey')
  await off.gateway.close()
})

describe('a passkey', () => {
  const device = softPasskey(BROWSER_ORIGIN)

  test('is added by a person who signed in lately, and signs in without a password', async () => {
    expect((await add(owner, device, 'my laptop')).location).toBe('/account/passkeys')
    const browser = house.browser()
    const answer = await signIn(browser, device)
    expect([answer.status, answer.location]).toEqual([303, '/account'])
    expect(answer.headers.getSetCookie()[0]).toMatch(
      /^tollgate_session=[\w-]{32,}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=604800$/,
    )
    expect((await browser.open('/account')).text).toContain(OWNER.email)
    expect((await browser.open('/account/passkeys')).text).toMatch(/my laptop, added \d{4}-\d\d-\d\d, last used \d{4}/)
  })

  test('leads to the page that was asked for, and has the browser known to the password', async () => {
    const browser = house.browser()
    expect((await browser.open('/account/sign-in?next=device')).text).toContain(`"${SIGN_IN}?next=device"`)
    const { text } = await browser.open(`${SIGN_IN}?next=device`)
    expect(text).toContain('"/account/sign-in?next=device"')
    const answer = device.signIn(await optionsOn(browser, SIGN_IN))
    const entered = await browser.fill('/account/sign-in?again=yes', { answer }, { action: `${SIGN_IN}?next=device` })
    expect([entered.status, entered.location]).toEqual([303, '/account/device'])
    const mark = browser.cookies.get('tollgate_browser')
    expect(mark).toBeDefined()
    await browser.fill('/account/sign-in?again=yes', { email: OWNER.email, password: OWNER.new_password })
    expect([await isSignedIn(browser), browser.cookies.get('tollgate_browser')]).toEqual([true, mark])
  })

  test('begins a session whose token is in no row, from the address of the browser, and ends the one before', async () => {
    const browser = house.browser()
    await signIn(browser, device)
    const first = browser.cookies.get('tollgate_session') ?? ''
    const [found] = await rows(
      `select token, user_agent, extract(epoch from expires_at - created_at)::int as seconds
       from sessions where ip_address = '${browser.address}'`,
    )
    expect(found).toEqual({
      token: expect.stringMatching(/^[0-9a-f]{64}$/),
      user_agent: 'test browser',
      seconds: 604_800,
    })
    await signIn(browser, device)
    expect(browser.cookies.get('tollgate_session')).not.toBe(first)
    browser.cookies.set('tollgate_session', first)
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('is added to the audit log, and to none of another person', async () => {
    const entries = await rows("select action, before, after from audit_entries where action = 'passkey.added'")
    expect(entries).toEqual([{ action: 'passkey.added', before: null, after: { name: 'my laptop' } }])
    expect(await idsOf(member)).toEqual([])
  })

  test.each<[string, Dishonest]>([
    ['another challenge', { challenge: Buffer.alloc(32).toString('base64url') }],
    ['a page of another site', { origin: 'https://evil.test' }],
    ['another server', { relyingParty: 'evil.test' }],
    ['no verified user', { flags: 0x01 }],
    ['no user present', { flags: 0x04 }],
    ['an unknown passkey', { credentialId: 'AAAA' }],
    ['another person', { userHandle: Buffer.alloc(16).toString('base64url') }],
    ['a text that is no id', { userHandle: 'AA' }],
  ])('with %s signs nobody in', async (_name, dishonest) => {
    const browser = house.browser()
    const answer = await signIn(browser, device, dishonest)
    expect([answer.status, await isSignedIn(browser)]).toEqual([401, false])
    expect(answer.text).toContain('You are not signed in')
  })

  test("signs nobody in by another key's signature", async () => {
    const browser = house.browser()
    const forged = softPasskey(BROWSER_ORIGIN)
    const { credentialId } = device
    expect((await signIn(browser, forged, { credentialId })).status).toBe(401)
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('answers a challenge once, and in the browser that was asked', async () => {
    const [browser, other] = [house.browser(), house.browser()]
    const answer = device.signIn(await optionsOn(browser, SIGN_IN))
    expect((await send(other, answer)).status).toBe(401)
    expect((await send(browser, answer)).status).toBe(303)
    const again = house.browser()
    expect((await send(again, answer)).status).toBe(401)
    browser.cookies.delete('tollgate_session')
    expect((await send(browser, answer)).status).toBe(401)
  })

  test('answers no challenge that has expired, and none of another purpose', async () => {
    const browser = house.browser()
    const late = device.signIn(await optionsOn(browser, SIGN_IN))
    await rows("update passkey_challenges set expires_at = now() - interval '1 second'")
    expect((await send(browser, late)).status).toBe(401)
    // The challenge of the page that adds a passkey is not one to sign in by.
    const { challenge } = await optionsOn(owner, NEW)
    const answer = device.signIn({ challenge, rpId: '127.0.0.1' })
    expect((await owner.fill('/account', { answer }, { action: SIGN_IN })).status).toBe(401)
  })

  test.each(['', '{}', 'null', '[]', '{"id":"AA"}', 'x'.repeat(9_000), '{"id":1,"response":{}}'])(
    'the answer %p signs nobody in',
    async (answer) => {
      const browser = house.browser()
      await optionsOn(browser, SIGN_IN)
      expect((await send(browser, answer)).status).toBe(401)
    },
  )

  test('of a device that counts is refused once its count stands still: it was copied', async () => {
    const counting = softPasskey(BROWSER_ORIGIN)
    await add(member, counting, 'counting', { signCount: 5 })
    expect((await signIn(house.browser(), counting, { signCount: 6 })).status).toBe(303)
    for (const signCount of [6, 5, 0]) expect((await signIn(house.browser(), counting, { signCount })).status).toBe(401)
    expect((await signIn(house.browser(), counting, { signCount: 7 })).status).toBe(303)
  })

  test('of somebody who was not asked is added to nobody', async () => {
    const before = await rows('select id from passkeys')
    const fresh = softPasskey(BROWSER_ORIGIN)
    for (const dishonest of [
      { challenge: 'AAAA' },
      { origin: 'https://evil.test' },
      { relyingParty: 'evil.test' },
      { flags: 0x01 },
    ])
      expect((await add(member, fresh, 'x', dishonest)).status).toBe(422)
    const answer = fresh.register(await optionsOn(member, NEW))
    expect((await owner.fill('/account', { name: 'x', answer }, { action: NEW })).status).toBe(422)
    for (const name of ['', ' ', 'x'.repeat(61), 'a\nb']) expect((await add(member, fresh, name)).status).toBe(422)
    expect((await add(member, device)).status).toBe(422)
    expect((await house.browser().open(NEW)).location).toBe('/account/sign-in')
    expect(await rows('select id from passkeys')).toEqual(before)
  })

  test('attested by its own key is added, as browsers may send it where no attestation was asked for', async () => {
    const attested = softPasskey(BROWSER_ORIGIN)
    expect((await add(member, attested, 'security key', { attestation: 'packed' })).location).toBe('/account/passkeys')
    expect((await signIn(house.browser(), attested)).status).toBe(303)
  })

  test.each<NonNullable<Dishonest['attestation']>>(['apple', 'packed by a certificate'])(
    'attested %s is not added, and no list of revoked certificates is fetched',
    async (attestation) => {
      const before = await rows('select id from passkeys')
      const fetching = spyOn(globalThis, 'fetch').mockRejectedValue(new Error('nothing is to be fetched'))
      const answer = await add(member, softPasskey(BROWSER_ORIGIN), 'x', { attestation })
      const fetched = [...fetching.mock.calls]
      fetching.mockRestore()
      expect([answer.status, fetched]).toEqual([422, []])
      expect(await rows('select id from passkeys')).toEqual(before)
    },
  )

  test('is not added by a session that began more than ten minutes ago, until its person signs in again', async () => {
    const late = house.browser()
    const fields = { email: 'member@example.com', password: 'a long enough phrase' }
    await late.fill('/account/sign-in', fields)
    const fresh = softPasskey(BROWSER_ORIGIN)
    const answer = fresh.register(await optionsOn(late, NEW))
    await rows(`update sessions set created_at = now() - interval '601 seconds' where ip_address = '${late.address}'`)
    expect((await late.open(NEW)).status).toBe(403)
    expect((await late.fill('/account', { name: 'x', answer }, { action: NEW })).status).toBe(403)
    expect((await late.open(NEW)).text).toContain('/account/sign-in?again=yes')
    expect((await late.fill('/account/sign-in?again=yes', fields)).status).toBe(303)
    expect((await add(late, fresh)).location).toBe('/account/passkeys')
  })

  test('is renamed and removed by its own person alone; removed, it signs nobody in', async () => {
    const other = softPasskey(BROWSER_ORIGIN)
    await add(owner, other, 'phone')
    const [, id = ''] = await idsOf(owner)
    const change = (browser: Visitor, action: string, fields: Record<string, string>) =>
      browser.fill('/account', { passkey: id, ...fields }, { action: `/account/passkeys/${action}` })
    expect((await change(member, 'rename', { name: 'stolen' })).status).toBe(422)
    expect((await change(member, 'remove', {})).status).toBe(422)
    expect((await change(owner, 'rename', { name: '<b>old</b> phone' })).location).toBe('/account/passkeys')
    // The same name once more is no change: it leaves no entry below.
    expect((await change(owner, 'rename', { name: '<b>old</b> phone' })).location).toBe('/account/passkeys')
    const { text } = await owner.open('/account/passkeys')
    expect(text).toContain('&lt;b&gt;old&lt;/b&gt; phone')
    expect(text).not.toContain('<b>old')
    expect((await signIn(house.browser(), other)).status).toBe(303)
    expect((await change(owner, 'remove', { csrf: '' })).status).toBe(403)
    expect((await change(owner, 'remove', {})).location).toBe('/account/passkeys')
    expect((await signIn(house.browser(), other)).status).toBe(401)
    expect((await change(owner, 'remove', {})).status).toBe(422)
    const entries = await rows("select before, after from audit_entries where action = 'passkey.renamed'")
    expect(entries).toEqual([{ before: { name: 'phone' }, after: { name: '<b>old</b> phone' } }])
  })

  test('is one of so many at most', async () => {
    const full = await house.join(owner, 'full@example.com')
    await rows(
      `insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, created_at)
       select gen_random_uuid(), u.id, decode(md5(n::text), 'hex'), '\\x01', 0, 'n', now()
       from users u, generate_series(1, ${PASSKEYS_MOST}) n where u.email = 'full@example.com'`,
    )
    const answer = await add(full, softPasskey(BROWSER_ORIGIN))
    expect([answer.status, answer.text]).toEqual([422, expect.stringContaining('Remove one first')])
  })
})

describe('the pages', () => {
  test('run the one script that they have, by its hash', async () => {
    const { headers, text } = await house.browser().open(SIGN_IN)
    const script = /<script>([\s\S]*)<\/script>/.exec(text)?.[1] ?? ''
    const hash = new Bun.CryptoHasher('sha256').update(script).digest('base64')
    const policy = headers.get('Content-Security-Policy') ?? ''
    expect(policy).toContain(`script-src 'sha256-${hash}';`)
    expect(policy).toContain("default-src 'none'")
    expect((await owner.open('/account')).headers.get('Content-Security-Policy')).not.toContain('script-src')
  })

  test('ask for the same whoever asks, and are slowed down by place', async () => {
    const [one, other] = [await optionsOn(house.browser(), SIGN_IN), await optionsOn(house.browser(), SIGN_IN)]
    expect({ ...one, challenge: '' }).toEqual({ ...other, challenge: '' })
    expect(one.challenge).not.toBe(other.challenge)
    const browser = house.browser()
    const answers = new Set<number>()
    for (let count = 0; count < 30; count += 1) answers.add((await browser.open(SIGN_IN)).status)
    expect([...answers]).toEqual([200, 429])
  })

  test('leave no challenge in the logs', async () => {
    const { challenge } = await optionsOn(house.browser(), SIGN_IN)
    const text = house.gateway.logs.join('\n')
    for (const secret of [challenge, OWNER.email, 'my laptop']) expect(text).not.toContain(secret)
  })
})
