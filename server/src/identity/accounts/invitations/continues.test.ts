/** An invitation to somebody who has an account goes on after the sign-in, on the whole gateway as a browser sees it. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import type { Visitor } from '../../../../test/visitor.ts'

const EMAIL = 'member@example.com'
const SIGN_IN = { email: EMAIL, password: 'a long enough phrase' }

let house: AccountsHouse
let owner: Visitor
beforeAll(async () => {
  house = await openAccountsHouse()
  owner = await house.owner()
  await house.join(owner, EMAIL)
}, 60_000)
afterAll(() => house.gateway.close())

/** Makes another organization with the owner in it, and invites the person; returns the path of the mailed link. */
async function invite(name: string): Promise<string> {
  const { database } = house.gateway
  await owner.call('POST', '/manage/v1/operator/organizations', { name })
  await database.query(
    `insert into members (id, organization_id, user_id, role, created_at)
     select gen_random_uuid(), o.id, u.id, 'owner', now() from organizations o, users u where o.name = $1 and u.email = 'ada@example.com'`,
    [name],
  )
  const [{ id = '' } = {}] = await database.query<{ id: string }>('select id from organizations where name = $1', [
    name,
  ])
  await owner.call('PATCH', '/manage/v1/session', { organization_id: id })
  expect((await owner.call('POST', '/manage/v1/invitations', { email: EMAIL, role: 'member' })).status).toBe(201)
  return house.linkTo(EMAIL)
}

test('a person who is signed out signs in, comes back to the invitation, and accepts it', async () => {
  const browser = house.browser()
  const link = await invite('first')
  const asked = await browser.open(link)
  expect([asked.status, asked.text]).toEqual([403, expect.stringContaining('href="/account/sign-in?next=accept"')])
  expect((await browser.fill('/account/sign-in?next=accept', SIGN_IN)).location).toBe('/account/accept')
  expect((await browser.open('/account/accept')).text).toContain('“first”')
  expect((await browser.fill('/account/accept', {})).location).toBe('/account')
  expect((await browser.open('/account')).text).toContain('You act for the organization “first”')
  // The cookie that led back is gone.
  expect(browser.cookies.has('tollgate_invitation')).toBe(false)
})

test('somebody who is signed in as another person signs out by a form of the page, and goes on with the other account', async () => {
  const browser = await house.join(owner, 'other@example.com')
  const link = await invite('second')
  const asked = await browser.open(link)
  expect([asked.status, asked.text]).toEqual([403, expect.stringContaining('You are signed in as other@example.com')])
  expect(asked.text).toContain('action="/account/sign-out?next=accept"')
  expect(asked.text).not.toContain('href="/account/sign-in')
  const action = '/account/sign-out?next=accept'
  const forged = await browser.fill(link, { csrf: 'x' }, { action })
  expect([forged.status, (await browser.open('/account')).status]).toEqual([403, 200])
  expect((await browser.fill(link, {}, { action })).location).toBe('/account/sign-in?next=accept')
  expect((await browser.open('/account')).location).toBe('/account/sign-in')
  expect((await browser.fill('/account/sign-in?next=accept', SIGN_IN)).location).toBe('/account/accept')
  expect((await browser.fill('/account/accept', {})).location).toBe('/account')
})

test('a member who has changed to the invited address is told of the membership, and nothing is written down', async () => {
  const { database } = house.gateway
  const link = await invite('third')
  await database.query(
    `insert into members (id, organization_id, user_id, role, created_at)
     select gen_random_uuid(), o.id, u.id, 'admin', now() from organizations o, users u where o.name = 'third' and u.email = $1`,
    [EMAIL],
  )
  const browser = house.browser()
  await browser.fill('/account/sign-in', SIGN_IN)
  const entries = () => database.query<object>('select id from audit_entries order by id')
  const before = await entries()
  const told = await browser.fill(link, {})
  expect([told.status, told.text]).toEqual([
    422,
    expect.stringContaining('You are a member of this organization already'),
  ])
  expect(await entries()).toEqual(before)
  const ofThird = "from members m join organizations o on o.id = m.organization_id where o.name = 'third'"
  expect(await database.query(`select m.role ${ofThird} order by m.role`)).toEqual([
    { role: 'admin' },
    { role: 'owner' },
  ])
  expect(
    await database.query(
      'select 1 from invitations where email = $1 and accepted_at is null and withdrawn_at is null',
      [EMAIL],
    ),
  ).toHaveLength(1)
})

test('a sign-in leads to no address that stands in its own', async () => {
  for (const next of ['https://evil.test', '//evil.test', '/account/device', 'constructor', '__proto__']) {
    const path = `/account/sign-in?next=${encodeURIComponent(next)}`
    expect((await house.browser().fill(path, SIGN_IN)).location).toBe('/account')
  }
  const stranger = house.browser()
  await stranger.fill('/account/sign-in?next=accept', SIGN_IN)
  expect((await stranger.open('/account/accept')).status).toBe(404)
})
