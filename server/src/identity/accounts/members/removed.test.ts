/** The removal of a member ends what acts for the organization, and nothing of the person's other organizations. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import type { Visitor } from '../../../../test/visitor.ts'

let house: AccountsHouse
let owner: Visitor
beforeAll(async () => {
  house = await openAccountsHouse()
  owner = await house.owner()
})
afterAll(() => house.gateway.close())

const json = async (response: Response | Promise<Response>) => (await response).json()
const status = async (response: Promise<Response>) => (await response).status
const makeKey = (browser: Visitor) =>
  json(browser.call('POST', '/manage/v1/keys', { name: 'k', scope: 'full_access' })) as Promise<{ key: string }>
const canCall = async ({ key }: { key: string }) =>
  (await house.gateway.get({ key } as never, '/billing/balance')).status === 200

/** Sends a cookie alone, as a script of another tab does. */
const cookieOf = (browser: Visitor) => ({
  Cookie: [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; '),
})

test('a member who is removed loses what acts for the organization; sessions and keys of the person for another one go on', async () => {
  const email = 'of-two@example.com'
  const first = await house.join(owner, email, 'admin')
  const { id: second } = await json(owner.call('POST', '/manage/v1/operator/organizations', { name: 'second' }))
  const { user, member_id: id } = await json(first.call('GET', '/manage/v1/session'))
  const others = `insert into members (id, organization_id, user_id, role, created_at)
    values (gen_random_uuid(), '${second}', '${user.id}', 'owner', now())`
  await house.gateway.database.query(others)
  const again = async (organization?: string) => {
    const browser = house.browser()
    await browser.fill('/account/sign-in', { email, password: 'a long enough phrase' })
    if (organization !== undefined)
      expect(await status(browser.call('PATCH', '/manage/v1/session', { organization_id: organization }))).toBe(200)
    return browser
  }
  // The first one chose its organization when it accepted; one did not choose, and acts for the oldest membership.
  const [unchosen, elsewhere] = [await again(), await again(second)]
  const [keyHere, keyThere] = [await makeKey(first), await makeKey(elsewhere)]
  const followed = await house.gateway.send('/manage/v1/events', { headers: cookieOf(first) })
  const organizationOf = async (browser: Visitor) =>
    (await json(house.gateway.send('/manage/v1/session', { headers: cookieOf(browser) }))).organization?.id
  expect(await Promise.all([first, unchosen, elsewhere].map(organizationOf))).toEqual([
    house.organizationId,
    house.organizationId,
    second,
  ])
  expect(await status(owner.call('DELETE', `/manage/v1/members/${id}`))).toBe(204)
  expect(await Promise.all([first, unchosen, elsewhere].map(organizationOf))).toEqual([undefined, undefined, second])
  for (const browser of [first, unchosen])
    expect((await house.gateway.send('/manage/v1/keys', { headers: cookieOf(browser) })).status).toBe(401)
  expect(await status(elsewhere.call('PATCH', '/manage/v1/session', { organization_id: house.organizationId }))).toBe(
    404,
  )
  // Its stream of events ends too.
  await followed.text()
  while (await canCall(keyHere)) {}
  expect(await canCall(keyThere)).toBe(true)
  expect(await organizationOf(await again())).toBe(second)
})
