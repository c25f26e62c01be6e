/** Sign-in by identity providers on the whole gateway: OpenID Connect by oidc-provider in this process, GitHub by a stand-in. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { ACCOUNT_SETTINGS, type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import {
  CLIENT_ID,
  CLIENT_SECRET,
  openOidcProvider,
  openTestGithub,
  type TestIdentityProvider,
} from '../../../../test/singleSignOn.ts'
import { BROWSER_ORIGIN, type Visitor } from '../../../../test/visitor.ts'

const environment = { SSO_SECRET: CLIENT_SECRET }
const settingsOf = (providers: readonly string[]) =>
  ACCOUNT_SETTINGS.replace('accounts: {}', `accounts: { identity_providers: [${providers.join(', ')}] }`)
const byOidc = (issuer: string) =>
  `{ provider: oidc, id: company, name: Company, issuer: "${issuer}", client_id: ${CLIENT_ID}, client_secret_env: SSO_SECRET }`
const byGithub = (url: string) =>
  `{ provider: github, url: "${url}", client_id: ${CLIENT_ID}, client_secret_env: SSO_SECRET }`

let company: TestIdentityProvider
let github: TestIdentityProvider
let house: AccountsHouse
beforeAll(async () => {
  company = await openOidcProvider(`${BROWSER_ORIGIN}/account/identity/company/callback`)
  github = await openTestGithub()
  house = await openAccountsHouse({
    settings: settingsOf([byOidc(company.issuer), byGithub(github.issuer)]),
    environment,
  })
  const owner = await house.owner()
  await house.join(owner, 'member@example.com')
})
afterAll(async () => {
  await house.gateway.close()
  await company.close()
  await github.close()
})

type Id = 'company' | 'github'
const providerOf = (id: Id) => (id === 'company' ? company : github)
const rows = (text: string) => house.gateway.database.query<Record<string, unknown>>(text)
const isSignedIn = async (browser: Visitor) => (await browser.open('/account')).status === 200

async function signedIn(email = OWNER.email) {
  const browser = house.browser()
  await browser.fill('/account/sign-in', { email, password: OWNER.new_password })
  return browser
}

/** Presses the button of a provider; returns where the page leads. */
async function begin(browser: Visitor, id: Id, isLink = false, next = ''): Promise<string> {
  const [page, action] = isLink
    ? ['/account/identities', `/account/identity/${id}/link`]
    : [`/account/sign-in?again=yes${next}`, `/account/identity/${id}${next.replace('&', '?')}`]
  const { text, status } = await browser.fill(page, {}, { action })
  if (status !== 200) throw new Error(`${status}: ${text}`)
  return (/content="0;url=([^"]*)"/.exec(text)?.[1] ?? '').replaceAll('&amp;', '&')
}

/** Presses the button, agrees at the provider, and comes back. */
async function through(browser: Visitor, id: Id, isLink = false) {
  return browser.open(await providerOf(id).visit(await begin(browser, id, isLink)))
}

/** Makes an organization whose owner invites the first person. */
async function invite(name: string): Promise<void> {
  const made = await (await signedIn()).call('POST', '/manage/v1/operator/organizations', { name })
  const { id } = await made.json()
  await rows(
    `insert into members (id, organization_id, user_id, role, created_at)
     select gen_random_uuid(), '${id}', u.id, 'owner', now() from users u where u.email = 'member@example.com'`,
  )
  const other = await signedIn('member@example.com')
  await other.call('PATCH', '/manage/v1/session', { organization_id: id })
  const invited = await other.call('POST', '/manage/v1/invitations', { email: OWNER.email, role: 'member' })
  expect(invited.status).toBe(201)
}

test('without the setting there are none', async () => {
  const off = await openAccountsHouse()
  const browser = await off.owner()
  expect((await browser.open('/account/identities')).status).toBe(404)
  expect((await browser.open('/account/identity/company/callback?code=x&state=y')).status).toBe(404)
  expect((await browser.open('/account')).text).not.toContain('identities')
  await off.gateway.close()
})

describe.each<[Id, string]>([
  ['company', 'Company'],
  ['github', 'GitHub'],
])('%s', (id, name) => {
  test('signs nobody in whose account is not linked, and says what to do, whether the address is known or not', async () => {
    const provider = providerOf(id)
    const known = house.browser()
    const refused = await through(known, id)
    expect([refused.status, await isSignedIn(known)]).toEqual([403, false])
    expect(refused.text).toContain(`link ${name} there`)
    const { subject, email } = provider.person
    Object.assign(provider.person, { subject: '1', email: 'nobody@example.com' })
    const unknown = await through(house.browser(), id)
    Object.assign(provider.person, { subject, email })
    expect([unknown.status, unknown.text]).toEqual([403, refused.text])
    expect(await rows('select 1 from linked_identities')).toEqual(id === 'company' ? [] : [{ '?column?': 1 }])
  })

  test('that signs nobody in keeps the page that the person was on the way to, which is one of our own', async () => {
    const provider = providerOf(id)
    const onTheWay = async (next: string) => {
      const browser = house.browser()
      const url = await begin(browser, id, false, next)
      const { text } = await browser.open(await provider.visit(url))
      return /href="(\/account\/sign-in[^"]*)"/.exec(text)?.[1]?.replaceAll('&amp;', '&') ?? ''
    }
    for (const isRefusing of [false, true]) {
      provider.person.isRefusing = isRefusing
      expect(await onTheWay('')).toBe('/account/sign-in?again=yes')
      expect(await onTheWay('&next=https://evil.test')).toBe('/account/sign-in?again=yes')
      expect(await onTheWay('&next=device')).toBe('/account/sign-in?again=yes&next=device')
    }
    provider.person.isRefusing = false
    const browser = house.browser()
    const sent = { email: OWNER.email, password: OWNER.new_password }
    expect((await browser.fill(await onTheWay('&next=device'), sent)).location).toBe('/account/device')
  })

  test('is linked only where the address of the account is verified there', async () => {
    const provider = providerOf(id)
    const browser = await signedIn()
    for (const wrong of [{ isVerified: false }, { email: 'another@example.com' }]) {
      const { isVerified, email } = provider.person
      Object.assign(provider.person, wrong)
      const answer = await through(browser, id, true)
      Object.assign(provider.person, { isVerified, email })
      expect([answer.status, answer.text]).toEqual([422, expect.stringContaining('has not confirmed that')])
    }
  })

  test('is linked by a session, and signs in then: a new session for each time', async () => {
    const browser = await signedIn()
    expect((await through(browser, id, true)).location).toBe('/account/identities')
    expect((await browser.open('/account/identities')).text).toContain(`${name}, linked`)
    const other = house.browser()
    const answer = await through(other, id)
    expect([answer.status, answer.location]).toEqual([303, '/account'])
    expect(answer.headers.getSetCookie()[0]).toMatch(
      /^tollgate_session=[\w-]{32,}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=604800$/,
    )
    expect((await other.open('/account')).text).toContain(OWNER.email)
    expect(other.cookies.has('tollgate_flow')).toBe(false)
    const first = other.cookies.get('tollgate_session') ?? ''
    await through(other, id)
    other.cookies.set('tollgate_session', first)
    expect(await isSignedIn(other)).toBe(false)
  })

  test('leads to the page that was asked for, and has the browser known to the password', async () => {
    const browser = house.browser()
    expect((await browser.open('/account/sign-in?next=device')).text).toContain(`"/account/identity/${id}?next=device"`)
    const entered = await browser.open(await providerOf(id).visit(await begin(browser, id, false, '&next=device')))
    expect([entered.status, entered.location]).toEqual([303, '/account/device'])
    const mark = browser.cookies.get('tollgate_browser')
    expect(mark).toBeDefined()
    await browser.fill('/account/sign-in?again=yes', { email: OWNER.email, password: OWNER.new_password })
    expect([await isSignedIn(browser), browser.cookies.get('tollgate_browser')]).toEqual([true, mark])
  })

  test('leads back to an invitation, which the person accepts', async () => {
    await invite(`invites by ${id}`)
    const browser = house.browser()
    expect((await browser.open(await house.linkTo(OWNER.email))).text).toContain('"/account/sign-in?next=accept"')
    const entered = await browser.open(await providerOf(id).visit(await begin(browser, id, false, '&next=accept')))
    expect([entered.status, entered.location]).toEqual([303, '/account/accept'])
    expect((await browser.fill('/account/accept', {})).location).toBe('/account')
    expect((await browser.open('/account')).text).toContain(`You act for the organization “invites by ${id}”`)
  })

  test('is linked to one person, once', async () => {
    const provider = providerOf(id)
    expect((await through(await signedIn(), id, true)).status).toBe(422)
    const member = await signedIn('member@example.com')
    const { email } = provider.person
    provider.person.email = 'member@example.com'
    expect((await through(member, id, true)).status).toBe(422)
    provider.person.email = email
    expect((await member.open('/account/identities')).text).not.toContain(`${name}, linked`)
  })

  test('has its answer taken once, and in the browser that asked alone', async () => {
    const [browser, other] = [house.browser(), house.browser()]
    const back = await providerOf(id).visit(await begin(browser, id))
    await begin(other, id)
    expect((await other.open(back)).status).toBe(403)
    expect((await house.browser().open(back)).status).toBe(403)
    const flow = browser.cookies.get('tollgate_flow') ?? ''
    expect((await browser.open(back)).status).toBe(303)
    browser.cookies.delete('tollgate_session')
    expect((await browser.open(back)).status).toBe(403)
    // Even with the cookie that was cleared: the provider takes no code twice.
    browser.cookies.set('tollgate_flow', flow)
    expect([(await browser.open(back)).status, await isSignedIn(browser)]).toEqual([502, false])
  })

  test('has a code of another flow refused, by PKCE', async () => {
    const [browser, thief] = [house.browser(), house.browser()]
    const stolen = await providerOf(id).visit(await begin(browser, id))
    const own = new URL(await providerOf(id).visit(await begin(thief, id)), BROWSER_ORIGIN)
    own.searchParams.set('code', new URL(stolen, BROWSER_ORIGIN).searchParams.get('code') ?? '')
    const answer = await thief.open(`${own.pathname}${own.search}`)
    expect([answer.status, await isSignedIn(thief)]).toEqual([502, false])
  })

  test('has no answer to a sign-in taken for a link, nor one of another session', async () => {
    const [one, other] = [await signedIn('member@example.com'), await signedIn('member@example.com')]
    const back = await providerOf(id).visit(await begin(one, id, true))
    other.cookies.set('tollgate_flow', one.cookies.get('tollgate_flow') ?? '')
    expect((await other.open(back)).status).toBe(403)
    one.cookies.delete('tollgate_session')
    expect((await one.open(back)).status).toBe(403)
  })

  test('asks with PKCE and a state of its own, and without the secret of the client', async () => {
    const urls = [await begin(house.browser(), id), await begin(house.browser(), id)].map((url) => new URL(url))
    for (const { searchParams, href } of urls) {
      expect(searchParams.get('code_challenge_method')).toBe('S256')
      expect(searchParams.get('code_challenge')).toMatch(/^[\w-]{43}$/)
      expect(searchParams.get('state')).toMatch(/^[\w-]{43}$/)
      expect(searchParams.get('nonce') !== null).toBe(id === 'company')
      expect(href).not.toContain(CLIENT_SECRET)
    }
    for (const name of ['state', 'code_challenge'])
      expect(urls[0]?.searchParams.get(name)).not.toBe(urls[1]?.searchParams.get(name) ?? '')
  })

  test('whose person does not agree changes nothing', async () => {
    const provider = providerOf(id)
    const browser = house.browser()
    provider.person.isRefusing = true
    const answer = await through(browser, id)
    provider.person.isRefusing = false
    expect([answer.status, await isSignedIn(browser)]).toEqual([403, false])
    expect(answer.text).toContain('did not confirm')
  })

  test('is unlinked by its person; it signs nobody in then', async () => {
    const browser = await signedIn()
    const action = `/account/identity/${id}/unlink`
    expect((await browser.fill('/account', { csrf: '' }, { action })).status).toBe(403)
    expect((await browser.fill('/account', {}, { action })).location).toBe('/account/identities')
    expect((await through(house.browser(), id)).status).toBe(403)
    expect((await browser.fill('/account', {}, { action })).status).toBe(422)
    await through(browser, id, true)
    expect((await through(house.browser(), id)).status).toBe(303)
  })
})

test('a session that began more than ten minutes ago links nothing', async () => {
  const browser = await signedIn('member@example.com')
  await rows(`update sessions set created_at = now() - interval '601 seconds' where ip_address = '${browser.address}'`)
  const answer = await browser.fill('/account', {}, { action: '/account/identity/company/link' })
  expect([answer.status, answer.text]).toEqual([403, expect.stringContaining('Sign in again')])
  expect(
    (await house.browser().fill('/account/sign-in', {}, { action: '/account/identity/company/link' })).location,
  ).toBe('/account/sign-in')
})

test('an answer with parameters of its own, which nobody knows here, is taken', async () => {
  const browser = house.browser()
  const back = await company.visit(await begin(browser, 'company'))
  expect((await browser.open(`${back}&session_state=x&hd=example.com`)).status).toBe(303)
})

test('a button of another site leads nowhere', async () => {
  const headers = { Origin: 'https://evil.test' }
  const answer = await house.browser().fill('/account/sign-in', {}, { action: '/account/identity/company', headers })
  expect(answer.status).toBe(403)
})

test('an answer of another issuer is refused', async () => {
  const browser = house.browser()
  const back = new URL(await company.visit(await begin(browser, 'company')), BROWSER_ORIGIN)
  back.searchParams.set('iss', 'https://evil.test')
  expect((await browser.open(`${back.pathname}${back.search}`)).status).toBe(502)
  expect(await isSignedIn(browser)).toBe(false)
})

test('a provider that is away leaves other ways to sign in', async () => {
  const gone = await openOidcProvider(`${BROWSER_ORIGIN}/account/identity/company/callback`)
  await gone.close()
  const other = await openAccountsHouse({ settings: settingsOf([byOidc(gone.issuer)]), environment })
  const browser = other.browser()
  const answer = await browser.fill('/account/sign-in', {}, { action: '/account/identity/company' })
  expect([answer.status, answer.text]).toEqual([502, expect.stringContaining('did not answer as it should')])
  expect((await browser.open('/account/sign-in')).status).toBe(200)
  await other.gateway.close()
})

test('links are in the audit log; secrets, codes, tokens and addresses are in no log and no row', async () => {
  const entries = await rows("select distinct action from audit_entries where action like 'identity.%' order by action")
  expect(entries).toEqual([{ action: 'identity.linked' }, { action: 'identity.unlinked' }])
  const stored = await rows(
    `select t::text as row from linked_identities t union all select t::text from sessions t
     union all select t::text from credentials t union all select t::text from audit_entries t union all select t::text from jobs t`,
  )
  const text = [...house.gateway.logs, ...stored.map(({ row }) => row)].join('\n')
  expect(company.sent.length).toBeGreaterThan(5)
  for (const secret of [CLIENT_SECRET, ...company.sent, ...github.sent]) expect(text).not.toContain(secret)
  expect(house.gateway.logs.join('\n')).not.toMatch(/code=|state=|ada@example/i)
})
