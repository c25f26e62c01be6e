/** An admin's key that asks for what needs an owner, on the whole gateway. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, memberIdOf, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import type { Visitor } from '../../../../test/visitor.ts'

let house: AccountsHouse
let owner: Visitor
let admin: Visitor
beforeAll(async () => {
  house = await openAccountsHouse()
  owner = await house.owner()
  admin = await house.join(owner, 'admin@example.com', 'admin')
}, 60_000)
afterAll(() => house.gateway.close())

const invitation = (email: string) => ({ email, role: 'owner' })

async function openInvitation(): Promise<string> {
  const made = await owner.call('POST', '/manage/v1/invitations', invitation('next@example.com'))
  return (await made.json()).id
}

test.each<[string, string, () => Promise<string>, object | undefined]>([
  ['invites an owner', 'POST', async () => '/invitations', invitation('grace@example.com')],
  ["withdraws an owner's invitation", 'DELETE', async () => `/invitations/${await openInvitation()}`, undefined],
  ['makes an owner', 'PATCH', async () => `/members/${await memberIdOf(admin)}`, { role: 'owner' }],
  ['changes an owner', 'PATCH', async () => `/members/${await memberIdOf(owner)}`, { role: 'member' }],
  ['removes an owner', 'DELETE', async () => `/members/${await memberIdOf(owner)}`, undefined],
])("an owner's own admin key that %s is told that an owner must sign in for it", async (_, method, pathOf, body) => {
  const wanted = { scope: 'full_access', admin: true }
  const { key } = await (await owner.call('POST', '/manage/v1/keys', wanted)).json()
  const path = `/manage/v1${await pathOf()}`
  const ask = { path, method, key, ...(body === undefined ? {} : { body }) }
  const { status, json } = await house.gateway.ask(ask)
  expect([status, json]).toMatchObject([
    403,
    {
      code: 'insufficient_scope',
      detail: expect.stringContaining("API keys can't, not even an owner's."),
    },
  ])
  const { data } = await (await owner.call('GET', '/manage/v1/members')).json()
  expect(data.map(({ email, role }: { email: string; role: string }) => [email, role]).sort()).toEqual([
    ['ada@example.com', 'owner'],
    ['admin@example.com', 'admin'],
  ])
})

test('an admin who is signed in is told that it needs an owner', async () => {
  const path = `/manage/v1/members/${await memberIdOf(admin)}`
  const answer = await admin.call('PATCH', path, { role: 'owner' })
  expect([answer.status, (await answer.json()).detail]).toEqual([
    403,
    'Only an owner of the organization makes, changes and removes owners.',
  ])
})
