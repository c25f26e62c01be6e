/** ID tokens that are not what they should be: each is refused, at a sign-in and at a link. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { ACCOUNT_SETTINGS, type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { type ForgingProvider, openForgingProvider } from '../../../../test/forgedTokens.ts'
import { CLIENT_ID, CLIENT_SECRET } from '../../../../test/singleSignOn.ts'
import type { Visitor } from '../../../../test/visitor.ts'

/** A person's own provider, and one that is another issuer. */
const IDS = ['company', 'other'] as const
type Id = (typeof IDS)[number]

let providers: Record<Id, ForgingProvider>
let house: AccountsHouse
beforeAll(async () => {
  providers = { company: await openForgingProvider(), other: await openForgingProvider() }
  const named = IDS.map(
    (id) =>
      `{ provider: oidc, id: ${id}, name: ${id}, issuer: "${providers[id].issuer}", client_id: ${CLIENT_ID}, client_secret_env: SSO_SECRET }`,
  )
  house = await openAccountsHouse({
    settings: ACCOUNT_SETTINGS.replace('accounts: {}', `accounts: { identity_providers: [${named.join(', ')}] }`),
    environment: { SSO_SECRET: CLIENT_SECRET },
  })
  await house.owner()
})
afterAll(async () => {
  await house.gateway.close()
  for (const id of IDS) await providers[id].close()
})

async function signedIn() {
  const browser = house.browser()
  await browser.fill('/account/sign-in', { email: OWNER.email, password: OWNER.new_password })
  return browser
}

/** Presses the button of a provider; returns the way by which the provider sends the browser back. */
async function begin(browser: Visitor, id: Id, isLink: boolean): Promise<string> {
  const [page, end] = isLink ? ['/account/identities', '/link'] : ['/account/sign-in?again=yes', '']
  const { text } = await browser.fill(page, {}, { action: `/account/identity/${id}${end}` })
  return providers[id].visit((/content="0;url=([^"]*)"/.exec(text)?.[1] ?? '').replaceAll('&amp;', '&'))
}

const through = async (browser: Visitor, isLink: boolean, id: Id = 'company') =>
  browser.open(await begin(browser, id, isLink))

const linked = async () => (await house.gateway.database.query('select issuer from linked_identities')).length

/** An hour ago, longer than any clock is off. */
const PAST = () => Math.floor(Date.now() / 1_000) - 3_600

const FORGED: readonly [name: string, claims: () => Record<string, unknown>, isSignedByAnother?: boolean][] = [
  ['the nonce of another flow', () => ({ nonce: 'x'.repeat(43) })],
  ['no nonce', () => ({ nonce: null })],
  ['another issuer', () => ({ iss: providers.other.issuer })],
  ['another audience', () => ({ aud: 'another-client' })],
  ['a time that has passed', () => ({ iat: PAST(), exp: PAST() + 300 })],
  ['no subject', () => ({ sub: null })],
  ['the signature of another key', () => ({}), true],
]

describe.each([
  ['a link', true],
  ['a sign-in', false],
] as const)('%s', (_name, isLink) => {
  test('by a good ID token counts', async () => {
    if (!isLink) expect((await through(await signedIn(), true)).location).toBe('/account/identities')
    const browser = isLink ? await signedIn() : house.browser()
    expect((await through(browser, isLink)).location).toBe(isLink ? '/account/identities' : '/account')
    await house.gateway.database.query('delete from linked_identities')
  })

  test.each(FORGED)('by an ID token with %s does not', async (_forged, claims, isSignedByAnother = false) => {
    if (!isLink) await through(await signedIn(), true)
    const before = await linked()
    const browser = isLink ? await signedIn() : house.browser()
    Object.assign(providers.company, { forged: claims(), isSignedByAnother })
    const answer = await through(browser, isLink)
    Object.assign(providers.company, { forged: {}, isSignedByAnother: false })
    expect([answer.status, await linked()]).toEqual([502, before])
    expect((await browser.open('/account')).status).toBe(isLink ? 200 : 303)
    await house.gateway.database.query('delete from linked_identities')
  })
})

test.each([
  ['the text "false"', { email_verified: 'false' }],
  ['the text "true"', { email_verified: 'true' }],
  ['a number', { email_verified: 1 }],
  ['nothing', { email_verified: null }],
  ['false', { email_verified: false }],
  ['true of an address that is none', { email: ['ada@example.com'] }],
])('an address of which email_verified is %s links nothing', async (_name, forged) => {
  providers.company.forged = forged
  const answer = await through(await signedIn(), true)
  providers.company.forged = {}
  expect([answer.status, await linked()]).toEqual([422, 0])
})

test('an answer of one provider is none of another, and so is its subject', async () => {
  await through(await signedIn(), true)
  const browser = house.browser()
  const back = await begin(browser, 'other', false)
  expect((await browser.open(back.replace('/identity/other/', '/identity/company/'))).status).toBe(403)
  expect((await through(browser, false, 'other')).status).toBe(403)
  expect((await browser.open('/account')).location).toBe('/account/sign-in')
})
