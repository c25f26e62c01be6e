/** The rotation of a key twice, and while its member is removed, on the whole gateway. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, openAccountsHouse } from '../../../test/accountsHouse.ts'
import { until } from '../../../test/until.ts'
import type { Visitor } from '../../../test/visitor.ts'

let house: AccountsHouse
let owner: Visitor
beforeAll(async () => {
  house = await openAccountsHouse()
  owner = await house.owner()
}, 60_000)
afterAll(() => house.gateway.close())

test('a key that rotates itself does not stand in the way of a removal', async () => {
  const { database } = house.gateway
  const admin = await house.join(owner, 'admin@example.com', 'admin')
  const made = await admin.call('POST', '/manage/v1/keys', { name: 'k', scope: 'full_access', admin: true })
  const { id, key, member_id: member } = await made.json()
  const waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
  const rotated = await database.transaction(async (tx) => {
    await tx.query('select 1 from members where id = $1 for update', [member])
    const rotating = house.gateway.post({ key } as never, `/manage/v1/keys/${id}/rotate`, {})
    await until(async () => (await database.query(waiting)).length > 0)
    // As a removal does, once it has locked the member: in another order the two would wait for each other.
    await tx.query('update api_keys set revoked_at = now() where id = $1', [id])
    return { rotating }
  })
  expect((await rotated.rotating).status).toBe(422)
})

const make = async (expires?: string) =>
  (await owner.call('POST', '/manage/v1/keys', { scope: 'full_access', expires })).json()
const rotate = async (id: string, seconds = 3_600) =>
  (await owner.call('POST', `/manage/v1/keys/${id}/rotate`, { overlap_seconds: seconds })).json()

test.each([undefined, '2999-01-01'])(
  'a key that expires %p is rotated again after the answer was lost: the next key does not expire with the overlap',
  async (expires) => {
    const old = await make(expires)
    const lost = await rotate(old.id)
    const next = await rotate(old.id)
    const expiry = expires === undefined ? null : '2999-01-01T00:00:00.000Z'
    expect([old.expires_at, lost.expires_at, next.expires_at]).toEqual([expiry, expiry, expiry])
    expect(next.id).not.toBe(lost.id)
  },
)

test('a second rotation lengthens no overlap', async () => {
  const old = await make()
  await rotate(old.id, 60)
  await rotate(old.id, 86_400)
  const { data } = await (await owner.call('GET', '/manage/v1/keys')).json()
  const { expires_at: endsAt } = data.find(({ id }: { id: string }) => id === old.id)
  expect(Date.parse(endsAt)).toBeLessThan(Date.now() + 61_000)
})

test('an expiry that a rotated key is given counts as its own; a name changes no expiry', async () => {
  const old = await make()
  await rotate(old.id)
  const change = (body: object) => owner.call('PATCH', `/manage/v1/keys/${old.id}`, body)
  await change({ name: 'renamed' })
  expect(await rotate(old.id)).toMatchObject({ name: 'renamed', expires_at: null })
  await change({ expires: '2998-01-01' })
  expect((await rotate(old.id)).expires_at).toBe('2998-01-01T00:00:00.000Z')
})
