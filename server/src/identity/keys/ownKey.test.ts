/** GET /manage/v1/key on the whole gateway. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, openAccountsHouse } from '../../../test/accountsHouse.ts'
import type { Visitor } from '../../../test/visitor.ts'

let house: AccountsHouse
let owner: Visitor
let member: Visitor
beforeAll(async () => {
  house = await openAccountsHouse()
  owner = await house.owner()
  member = await house.join(owner, 'member@example.com')
}, 60_000)
afterAll(() => house.gateway.close())

async function makeKey(browser: Visitor, more: object = {}) {
  const made = await browser.call('POST', '/manage/v1/keys', { name: 'k', scope: 'full_access', ...more })
  expect(made.status).toBe(201)
  return await made.json()
}

async function read(key: string) {
  const answer = await house.gateway.get({ key } as never, '/manage/v1/key')
  return { status: answer.status, ...(await answer.json()) }
}

test('a key tells its holder of itself, whatever its scopes, and of nothing else', async () => {
  const { key, ...own } = await makeKey(member, { scope: 'instances:write,billing:read', expires: '30d' })
  expect(await read(key)).toEqual({
    ...own,
    status: 200,
    scope: 'billing:read,instances:write',
    levels: { serverless: 'none', billing: 'read', webhooks: 'none', instances: 'write' },
    organization: { id: house.organizationId, name: 'default' },
    person: { name: expect.any(String), email: 'member@example.com', role: 'member' },
  })
})

test("a key of the organization is nobody's", async () => {
  const { key } = await makeKey(owner, { admin: true, owner: 'organization' })
  expect(await read(key)).toMatchObject({ admin: true, person: null, organization: { id: house.organizationId } })
})

test('a revoked key reads nothing, nor does a session', async () => {
  const { id, key } = await makeKey(member)
  await member.call('DELETE', `/manage/v1/keys/${id}`)
  expect((await read(key)).status).toBe(401)
  expect((await member.call('GET', '/manage/v1/key')).status).toBe(401)
})
