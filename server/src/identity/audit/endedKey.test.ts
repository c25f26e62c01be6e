/** Changes by a key that ends, or loses its rights, before its process has heard of it. On the whole gateway. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, memberIdOf, openAccountsHouse } from '../../../test/accountsHouse.ts'
import { until } from '../../../test/until.ts'
import type { Visitor } from '../../../test/visitor.ts'

let house: AccountsHouse
let owner: Visitor
let admin: Visitor
beforeAll(async () => {
  house = await openAccountsHouse()
  owner = await house.owner()
  admin = await house.join(owner, 'admin@example.com', 'admin')
}, 60_000)
afterAll(() => house.gateway.close())

const KEYS = '/manage/v1/keys'

/** Makes an admin's key of the member `admin`, and has the gateway remember it. */
async function knownKey(): Promise<{ readonly id: string; readonly key: string }> {
  const made = await (await admin.call('POST', KEYS, { scope: 'full_access', admin: true })).json()
  expect(await isLetIn(made.key)).toBe(true)
  return made
}

const isLetIn = async (key: string) => (await house.gateway.ask({ path: KEYS, key })).status === 200

/** Has `end` done to a key, without the notice by which processes forget what they know of it; a key that the gateway knows as it was. */
async function endedUnheard(
  end: (id: string) => Promise<unknown>,
): Promise<{ readonly id: string; readonly key: string }> {
  for (;;) {
    const made = await knownKey()
    await end(made.id)
    // Until its listener is confirmed the gateway asks the database each time.
    if (await isLetIn(made.key)) return made
  }
}

async function rowsOf(): Promise<unknown> {
  return house.gateway.database.query(
    `select (select count(*) from audit_entries) as entries, (select count(*) from api_keys) as keys,
       (select count(*) from invitations) as invitations, (select count(*) from webhook_endpoints) as endpoints,
       (select monthly_limit_microcents from accounts where organization_id = $1::uuid) as monthly`,
    [house.organizationId],
  )
}

const CHANGES: readonly (readonly [string, () => Promise<object>])[] = [
  ['makes a key', async () => ({ path: KEYS, body: { scope: 'full_access', admin: true, owner: 'organization' } })],
  ['invites', async () => ({ path: '/manage/v1/invitations', body: { email: 'x@example.com', role: 'admin' } })],
  [
    'changes a member',
    async () => ({
      ...{ path: `/manage/v1/members/${await memberIdOf(admin)}`, method: 'PATCH' },
      body: { role: 'member' },
    }),
  ],
  [
    'sets the limit',
    async () => ({ path: '/billing/spending-limit', method: 'PUT', body: { monthly_limit_dollars: 9_000 } }),
  ],
  [
    'makes an endpoint',
    async () => ({
      path: '/webhook-endpoints',
      body: { url: 'https://93.184.216.34/', event_types: ['video.completed'] },
    }),
  ],
]

test.each(CHANGES)(
  'a key that was revoked a moment ago, and %s, is refused, and nothing is changed',
  async (_, ask) => {
    const { key } = await endedUnheard((id) =>
      house.gateway.database.query('update api_keys set revoked_at = now() where id = $1::uuid', [id]),
    )
    const headers = { 'Idempotency-Key': crypto.randomUUID() }
    const asked = { method: 'POST', key, headers, ...(await ask()) }
    const before = await rowsOf()
    const { status, json } = await house.gateway.ask(asked as never)
    expect([status, json]).toMatchObject([401, { code: 'invalid_api_key' }])
    expect(await rowsOf()).toEqual(before)
  },
)

const WAITING = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"

test('a key that is revoked while its change waits for others of the organization makes no key', async () => {
  const { database } = house.gateway
  const { id, key } = await knownKey()
  const keys = 'select count(*) from api_keys'
  const before = await database.query(keys)
  const { changing } = await database.transaction(async (tx) => {
    await tx.query('select 1 from audit_budgets where organization_id = $1::uuid for update', [house.organizationId])
    const body = { scope: 'full_access', admin: true, owner: 'organization' }
    const asked = house.gateway.ask({ path: KEYS, method: 'POST', key, body })
    await until(async () => (await database.query(WAITING)).length > 0)
    expect((await owner.call('DELETE', `${KEYS}/${id}`)).status).toBe(204)
    return { changing: asked }
  })
  expect((await changing).status).toBe(401)
  expect(await database.query(keys)).toEqual(before)
})

test('a key whose end is being written changes nothing, and is told to try again', async () => {
  const { id, key } = await knownKey()
  const before = await rowsOf()
  await house.gateway.database.transaction(async (tx) => {
    await tx.query('update api_keys set revoked_at = now() where id = $1::uuid', [id])
    const { status, json } = await house.gateway.ask({
      ...{ path: '/billing/spending-limit', method: 'PUT', key },
      body: { monthly_limit_dollars: 9_000 },
    })
    expect([status, json]).toMatchObject([503, { detail: expect.stringContaining('Nothing was changed') }])
  })
  expect(await rowsOf()).toEqual(before)
})

test("one whose member was an admin a moment ago has an admin's rights no more", async () => {
  const memberId = await memberIdOf(admin)
  const setRole = (role: string) =>
    house.gateway.database.query('update members set role = $2 where id = $1::uuid', [memberId, role])
  const { key } = await knownKey()
  await setRole('member')
  const before = await rowsOf()
  const body = { scope: 'full_access', admin: true }
  const { status, json } = await house.gateway.ask({ path: KEYS, method: 'POST', key, body })
  expect([status, json]).toMatchObject([403, { code: 'insufficient_scope' }])
  expect(await rowsOf()).toEqual(before)
  await setRole('admin')
})

test('a key may revoke itself, rotate itself for good, and remove its own member', async () => {
  const status = async (given: object) => (await house.gateway.ask({ method: 'POST', ...given } as never)).status
  const revoked = await knownKey()
  expect(await status({ path: `${KEYS}/${revoked.id}`, method: 'DELETE', key: revoked.key })).toBe(204)
  const rotated = await knownKey()
  const body = { overlap_seconds: 0 }
  expect(await status({ path: `${KEYS}/${rotated.id}/rotate`, key: rotated.key, body })).toBe(201)
  expect(await status({ path: KEYS, key: rotated.key, body: { scope: 'read_only' } })).toBe(401)
  const leaving = await knownKey()
  const path = `/manage/v1/members/${await memberIdOf(admin)}`
  expect(await status({ path, method: 'DELETE', key: leaving.key })).toBe(204)
})
