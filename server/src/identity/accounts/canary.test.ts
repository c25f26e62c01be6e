/**
 * Passwords, links, session tokens and keys go through every way that people have, good and bad, at the most talkative log level.
 * Afterwards none of them is found in logs, metrics, refusals, or any row of any table.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, openAccountsHouse } from '../../../test/accountsHouse.ts'
import { metricsPage } from '../../../test/metricsPage.ts'

const PASSWORD = 'canary phrase 5b1f0c'
const NEXT = 'canary phrase 77ad21'
const RESET = 'canary phrase 90c4e2'
const WRONG = 'canary guess 2c9d41'
const EMAIL = 'canary-ada@example.com'

let house: AccountsHouse
/** Nothing of these may be anywhere. */
const secrets: Record<string, string> = { PASSWORD, NEXT, RESET, WRONG }
/** The texts of refusals. */
let refused = ''

const secretOf = (path: string) => new URL(path, 'http://x').searchParams.get('token') ?? ''

beforeAll(async () => {
  house = await openAccountsHouse()
  const owner = house.browser()
  const keep = async (answer: Promise<{ text: string }>) => {
    refused += (await answer).text.replace(/name="csrf" value="[^"]*"/g, '')
  }
  const setUp = await house.setUpPath()
  secrets['set-up link'] = secretOf(setUp)
  await keep(owner.fill(setUp, { name: 'Ada', email: 'canary@localhost', new_password: PASSWORD }))
  await owner.fill(setUp, { name: 'Ada', email: EMAIL, new_password: PASSWORD })
  secrets['first session'] = owner.cookies.get('tollgate_session') ?? ''
  secrets['mark of the browser'] = owner.cookies.get('tollgate_browser') ?? ''
  await keep(house.browser().fill('/account/sign-in', { email: EMAIL, password: WRONG }))
  await keep(
    house.browser().fill('/account/sign-in', { email: EMAIL, password: WRONG }, { headers: { Origin: 'null' } }),
  )
  await keep(owner.fill('/account', { password: WRONG, new_password: NEXT }, { action: '/account/password' }))
  await owner.fill('/account', { password: PASSWORD, new_password: NEXT }, { action: '/account/password' })

  await house.browser().fill('/account/forgotten', { email: EMAIL })
  const reset = await house.linkTo(EMAIL)
  secrets['reset link'] = secretOf(reset)
  await keep(owner.fill(reset, { new_password: EMAIL }))
  await owner.fill(reset, { new_password: RESET })
  await keep(house.browser().open(reset))
  secrets['second session'] = owner.cookies.get('tollgate_session') ?? ''
  const session = await (await owner.call('GET', '/manage/v1/session')).json()
  secrets['CSRF token'] = session.csrf_token

  await owner.call('POST', '/manage/v1/invitations', { email: 'guest@example.com' })
  const invitation = await house.linkTo('guest@example.com')
  secrets['invitation link'] = secretOf(invitation)
  await house.browser().fill(invitation, { name: 'Guest', new_password: PASSWORD })
  const made = await (await owner.call('POST', '/manage/v1/keys', { name: 'k', scope: 'full_access' })).json()
  secrets['API key'] = made.key
  const rotated = await (await owner.call('POST', `/manage/v1/keys/${made.id}/rotate`, {})).json()
  secrets['rotated key'] = rotated.key
  const bad = await owner.call('POST', '/manage/v1/keys', { name: PASSWORD.repeat(50), scope: RESET })
  refused += JSON.stringify({ status: bad.status })
}, 120_000)
afterAll(() => house.gateway.close())

const found = (text: string) =>
  Object.entries(secrets)
    .filter(([, secret]) => text.includes(secret))
    .map(([name]) => name)

test('each of the secrets is there', () => {
  for (const [name, secret] of Object.entries(secrets)) expect([name, secret.length >= 16]).toEqual([name, true])
  expect(new Set(Object.values(secrets)).size).toBe(Object.keys(secrets).length)
})

test('no log has one, or a mail address', () => {
  const text = house.gateway.logs.join('\n')
  expect(text.length).toBeGreaterThan(1_000)
  expect(found(text)).toEqual([])
  for (const address of [EMAIL, 'guest@example.com', 'canary@localhost']) expect(text).not.toContain(address)
})

test('no refusal has one', () => {
  expect(refused.length).toBeGreaterThan(500)
  expect(found(refused)).toEqual([])
})

test('no metric has one, or a mail address', async () => {
  const text = await metricsPage(house.gateway.app)
  expect(found(text)).toEqual([])
  expect(text).not.toContain('canary')
})

test('no row of any table has one', async () => {
  const { database } = house.gateway
  const tables = await database.query<{ name: string }>(
    `select quote_ident(table_name) as name from information_schema.tables
     where table_schema = 'public' and table_type = 'BASE TABLE'`,
  )
  expect(tables.length).toBeGreaterThan(20)
  let rows = 0
  for (const { name } of tables) {
    const text = (await database.query<{ row: string }>(`select t::text as row from ${name} t`)).map(({ row }) => row)
    rows += text.length
    expect([name, found(text.join('\n'))]).toEqual([name, []])
    // bytea is shown in hex.
    const hex = Object.entries(secrets).filter(([, secret]) =>
      text.join('\n').includes(Buffer.from(secret).toString('hex')),
    )
    expect([name, hex]).toEqual([name, []])
  }
  expect(rows).toBeGreaterThan(20)
})
