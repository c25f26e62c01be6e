/** Organizations are deleted, and people are erased who were or are their members: one after the other, and at the same moment. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { type DeletionHouse, openDeletionHouse } from '../../../test/deletionHouse.ts'
import type { Visitor } from '../../../test/visitor.ts'
import { erasePerson } from '../../identity/accounts/ownData/erase.ts'
import { systemClock } from '../../infra/clock.ts'
import { systemRandom } from '../../infra/random.ts'

setDefaultTimeout(120_000)

const PASSWORD = 'a long enough phrase'
const OPERATOR = { kind: 'operator', id: null, address: null } as const
/** One for each moment. */
const ROUNDS = 4

let stage: DeletionHouse
beforeAll(async () => {
  stage = await openDeletionHouse()
})
afterAll(() => stage.close())

const rows = <Row>(text: string, parameters: string[] = []) => stage.house.gateway.database.query<Row>(text, parameters)
const json = async (response: Response | Promise<Response>) => (await response).json()
const idOf = async (browser: Visitor) => (await json(browser.call('GET', '/manage/v1/session'))).user.id

function erase(userId: string) {
  const { database } = stage.house.gateway
  const tools = { database, clock: systemClock, random: systemRandom(), tellErased: async () => {} }
  return erasePerson(tools, { userId, provenHash: null, actor: OPERATOR })
}

test('the last owner deletes the organization, and is erased then', async () => {
  const own = await stage.register('Of one person', 'alone@example.com')
  const userId = await idOf(own.owner)
  const refused = await own.owner.call('PUT', '/manage/v1/account/erasure', { password: PASSWORD })
  expect([refused.status, await refused.text()]).toEqual([
    422,
    expect.stringContaining('the last owner of “Of one person”. Make another member an owner there, or delete'),
  ])
  expect(await stage.remove(own)).toBe(204)
  await stage.erased(own.id)
  expect(await erase(userId)).toMatchObject({ ok: true, value: { memberships: 0, keys: 0 } })
  expect(await rows('select 1 from members where organization_id = $1 and user_id is not null', [own.id])).toEqual([])
})

test('an export tells of the membership, and no name of the organization', async () => {
  const own = await stage.register('Exported Works', 'exported@example.com')
  const member = await stage.house.join(stage.operator, 'two@example.com')
  const userId = await idOf(member)
  // Listed by id: this one last.
  await rows(
    "insert into members (id, organization_id, user_id, role, created_at) values ($3, $1, $2, 'member', now())",
    [own.id, userId, 'ffffffff-ffff-4fff-bfff-ffffffffffff'],
  )
  expect(await stage.remove(own)).toBe(204)
  await stage.erased(own.id)
  const file = await json(member.call('GET', '/manage/v1/account/export'))
  expect(file.memberships).toMatchObject([
    { organization_name: 'default', removed_at: null },
    { organization_id: own.id, organization_name: `deleted ${own.id}`, removed_at: expect.any(String) },
  ])
  expect(JSON.stringify(file)).not.toContain('Exported Works')
})

test('a member who is erased first is named nowhere afterwards', async () => {
  const own = await stage.register('Erased first', 'erased-first@example.com')
  const { member } = await stage.furnish(own)
  const erased = await erase(await idOf(member))
  expect(erased).toMatchObject({ ok: true, value: { memberships: 1, keys: 0 } })
  expect(await stage.remove(own)).toBe(204)
  await stage.erased(own.id)
  expect((await stage.rows('audit_entries', own.id)).join()).not.toContain('erased-first')
})

test('a member who is erased at the same moment: both are done, in either order', async () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    const own = await stage.register(`Round ${round}`, `round-${round}@example.com`)
    const address = `member-${round}@example.com`
    const member = await stage.house.join(own.owner, address)
    const userId = await idOf(member)
    await member.call('POST', '/manage/v1/keys', { name: address, scope: 'full_access' })
    // The erasure locks the organization for this too.
    await own.owner.call('PATCH', '/manage/v1/organization', { notify_addresses: [address] })
    const wait = (round % 4) * 5
    const [status, erased] = await Promise.all([stage.remove(own), Bun.sleep(wait).then(() => erase(userId))])
    expect([status, erased.ok]).toEqual([204, true])
    await stage.erased(own.id)
    const left = [...(await stage.rows('audit_entries', own.id)), ...(await stage.rows('api_keys', own.id))].join()
    expect(left).not.toContain(address)
    expect(await rows('select 1 from users where id = $1', [userId])).toEqual([])
  }
})
