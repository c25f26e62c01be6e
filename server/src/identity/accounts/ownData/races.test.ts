/** Erasures at the same moment as other changes: one comes first, nobody waits for ever, and nothing is left of the person. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { until } from '../../../../test/until.ts'
import type { Visitor } from '../../../../test/visitor.ts'
import { systemClock } from '../../../infra/clock.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { systemRandom } from '../../../infra/random.ts'
import { erasePerson } from './erase.ts'

setDefaultTimeout(60_000)

const PASSWORD = 'a long enough phrase'
const OPERATOR = { kind: 'operator', id: null, address: null } as const

let house: AccountsHouse
let owner: Visitor
beforeAll(async () => {
  house = await openAccountsHouse()
  owner = await house.owner()
})
afterAll(() => house.gateway.close())

const rows = <Row>(text: string, parameters: string[] = []) => house.gateway.database.query<Row>(text, parameters)
const idOf = async (browser: Visitor) => (await (await browser.call('GET', '/manage/v1/session')).json()).user.id
const isThere = async (id: string) => (await rows('select 1 from users where id = $1', [id])).length === 1

function erase(userId: string, database: Database = house.gateway.database, provenHash: string | null = null) {
  const tools = { database, clock: systemClock, random: systemRandom(), tellErased: async () => {} }
  return erasePerson(tools, { userId, provenHash, actor: OPERATOR })
}

/** Erases a person in a transaction that commits when it is told to. Resolves when all but the commit is done. */
async function eraseSlowly(userId: string) {
  const { database } = house.gateway
  let commit = () => {}
  const told = new Promise<void>((resolve) => {
    commit = resolve
  })
  let reached = () => {}
  const done = new Promise<void>((resolve) => {
    reached = resolve
  })
  const slow: Database = {
    ...database,
    transaction: (work) =>
      database.transaction(async (tx) => {
        const value = await work(tx)
        reached()
        await told
        return value
      }),
  }
  const erased = erase(userId, slow)
  await done
  return { commit, erased }
}

/** Resolves when somebody waits for a lock that another transaction holds. */
async function somebodyWaits() {
  const waiting = 'select 1 from pg_stat_activity where wait_event_type = $1 and datname = current_database()'
  await until(async () => (await rows(waiting, ['Lock'])).length > 0)
}

test('of two last owners one is erased', async () => {
  const other = await house.gateway.customer()
  const ids: string[] = []
  for (const email of ['first@example.com', 'second@example.com']) {
    const id = await idOf(await house.join(owner, email))
    await rows(
      "insert into members (id, organization_id, user_id, role, created_at) values (gen_random_uuid(), $1, $2, 'owner', now())",
      [other.organizationId, id],
    )
    ids.push(id)
  }
  const answers = await Promise.all(ids.map((id) => erase(id)))
  expect(answers.map(({ ok }) => ok).sort()).toEqual([false, true])
  expect((await Promise.all(ids.map(isThere))).sort()).toEqual([false, true])
})

test('of two last operators one is erased', async () => {
  const ids: string[] = []
  for (const email of ['third@example.com', 'fourth@example.com'])
    ids.push(await idOf(await house.join(owner, email, 'owner')))
  await rows('update users set is_operator = id = any($1::text::uuid[])', [`{${ids.join(',')}}`])
  const answers = await Promise.all(ids.map((id) => erase(id)))
  expect(answers.map(({ ok }) => ok).sort()).toEqual([false, true])
  await rows('update users set is_operator = true where email = $1', [OWNER.email])
})

test('a sign-in that is under way begins no session', async () => {
  const email = 'enters@example.com'
  const id = await idOf(await house.join(owner, email))
  const { commit, erased } = await eraseSlowly(id)
  const signIn = house.browser().fill('/account/sign-in', { email, password: PASSWORD })
  await somebodyWaits()
  commit()
  expect((await erased).ok).toBe(true)
  expect((await signIn).status).toBe(401)
  expect(await rows('select 1 from sessions where user_id = $1', [id])).toEqual([])
})

test('a key that is being made is not made', async () => {
  const member = await house.join(owner, 'makes@example.com')
  const { commit, erased } = await eraseSlowly(await idOf(member))
  const made = member.call('POST', '/manage/v1/keys', { name: 'late', scope: 'read_only' })
  await somebodyWaits()
  commit()
  expect((await erased).ok).toBe(true)
  expect((await made).status).toBe(403)
  expect(await rows("select 1 from api_keys where name = 'late'")).toEqual([])
})

test('an invitation that is being accepted leaves no membership', async () => {
  const email = 'accepts@example.com'
  const member = await house.join(owner, email)
  const id = await idOf(member)
  const { member_id: memberId } = await (await member.call('GET', '/manage/v1/session')).json()
  await owner.call('DELETE', `/manage/v1/members/${memberId}`)
  await member.fill('/account/sign-in', { email, password: PASSWORD })
  await owner.call('POST', '/manage/v1/invitations', { email })
  const link = await house.linkTo(email)
  const { commit, erased } = await eraseSlowly(id)
  const accepted = member.fill(link, {})
  await somebodyWaits()
  commit()
  expect((await erased).ok).toBe(true)
  // 403 where the page with the form was what waited: its session has ended since.
  expect([403, 404]).toContain((await accepted).status)
  expect(await rows('select 1 from members where user_id is null and removed_at is null')).toEqual([])
})

test('a link to set a password sets none, whichever comes first', async () => {
  const email = 'resets@example.com'
  const member = await house.join(owner, email)
  const id = await idOf(member)
  await house.browser().fill('/account/forgotten', { email })
  const link = await house.linkTo(email)
  const { commit, erased } = await eraseSlowly(id)
  // The page is shown before the transaction commits; then the form is sent.
  const reset = house.browser().fill(link, { new_password: 'quite another phrase' })
  await somebodyWaits()
  commit()
  expect((await erased).ok).toBe(true)
  expect((await reset).status).toBe(404)
  expect(await rows('select 1 from credentials where user_id = $1', [id])).toEqual([])
  const later = await idOf(await house.join(owner, email))
  expect(await isThere(later)).toBe(true)
})

test('a password that is changed while its old one erases is the one that counts', async () => {
  const member = await house.join(owner, 'changes@example.com')
  const id = await idOf(member)
  const [{ password = '' } = {}] = await rows<{ password: string }>(
    'select password from credentials where user_id = $1',
    [id],
  )
  const change = { password: PASSWORD, new_password: 'quite another phrase' }
  await member.fill('/account', change, { action: '/account/password' })
  expect(await erase(id, house.gateway.database, password)).toMatchObject({ ok: false })
  expect(await isThere(id)).toBe(true)
})

test('twice at the same moment, one erasure finds nobody', async () => {
  const id = await idOf(await house.join(owner, 'twice@example.com'))
  const answers = await Promise.all([erase(id), erase(id)])
  expect(answers.map(({ ok }) => ok).sort()).toEqual([false, true])
  expect(
    await rows("select 1 from audit_entries where action = 'person.erased' and subject_id = $1", [id]),
  ).toHaveLength(1)
})
