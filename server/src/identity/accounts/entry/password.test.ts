/** Passwords that are changed and reset at the same time, on real PostgreSQL. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { until } from '../../../../test/until.ts'
import { systemClock } from '../../../infra/clock.ts'
import { systemRandom } from '../../../infra/random.ts'
import { findPasswordHash, findPersonByEmail } from '../people/find.ts'
import type { Attempted, Passwords } from '../secrets/betterAuth.ts'
import { changePassword, resetPassword } from './password.ts'
import { makeResetLink } from './setUp.ts'
import { signIn } from './signIn.ts'

const EMAIL = 'ada@example.com'
const [OLD, CHANGED, RESET] = ['a long enough phrase', 'the changed phrase', 'the phrase of the link']

let house: AccountsHouse
beforeAll(async () => {
  house = await openAccountsHouse()
  await house.owner()
}, 60_000)
afterAll(() => house.gateway.close())

/** `meanwhile` runs between the look at the old password and the change. */
function dependenciesOf(meanwhile = async () => {}) {
  const { database } = house.gateway
  const passwords = {
    hash: async (plain: string) => {
      await meanwhile()
      return `hash of ${plain}`
    },
    verify: async (hash: string, plain: string) => hash === `hash of ${plain}`,
  }
  return { database, clock: systemClock, random: systemRandom(), passwords, tellPasswordChanged: async () => {} }
}

async function personWith(password: string) {
  const { database } = house.gateway
  await database.query('update credentials set password = $1', [`hash of ${password}`])
  const person = await findPersonByEmail(database, EMAIL)
  if (person === null) throw new Error('nobody there')
  return { person, sessionId: crypto.randomUUID(), address: '198.51.100.1' }
}

async function linkOf(): Promise<string> {
  const made = await makeResetLink(dependenciesOf(), EMAIL)
  if (!made.ok) throw new Error(made.refusal.message)
  return made.value.reveal()
}

test('a change with the old password does not undo a reset that ran meanwhile', async () => {
  const who = await personWith(OLD)
  const secret = await linkOf()
  const meanwhile = async () => {
    expect((await resetPassword(dependenciesOf(), secret, RESET, '198.51.100.2')).ok).toBe(true)
  }
  expect((await changePassword(dependenciesOf(meanwhile), who, OLD, CHANGED)).ok).toBe(false)
  expect(await findPasswordHash(house.gateway.database, who.person.id)).toBe(`hash of ${RESET}`)
})

test('a sign-in with the old password waits for a change that is under way, and begins no session', async () => {
  await personWith(OLD)
  const { database } = house.gateway
  const passwords = { signIn: async () => ({ token: 'a token' }) } as unknown as Passwords
  const signing = await database.transaction(async (tx) => {
    await tx.query("update credentials set password = 'the hash of another'")
    const begun = signIn({ database, passwords }, { email: EMAIL, password: OLD } as Attempted)
    await until(async () => (await database.query('select 1 from pg_locks where not granted')).length > 0)
    return { begun }
  })
  expect(await signing.begun).toBeNull()
})

test('a link to set a password ends with a change of it', async () => {
  const who = await personWith(OLD)
  const secret = await linkOf()
  expect((await changePassword(dependenciesOf(), who, OLD, CHANGED)).ok).toBe(true)
  expect((await resetPassword(dependenciesOf(), secret, RESET, '198.51.100.2')).ok).toBe(false)
  expect(await findPasswordHash(house.gateway.database, who.person.id)).toBe(`hash of ${CHANGED}`)
})

test('a link that was asked for before a change, and not sent yet, is sent no more', async () => {
  const { database } = house.gateway
  const { person } = await personWith(OLD)
  const before = new Date(Date.now() - 60_000).getTime()
  await database.query('update credentials set updated_at = now()')
  await database.query(
    `insert into jobs (kind, organization_id, payload, due_at) values ('account link', $1,
       jsonb_build_object('purpose', 'reset', 'email', $2::text, 'askedAtMs', $3::bigint), now())`,
    [person.id, EMAIL, before],
  )
  await until(async () => {
    const [row] = await database.query<{ state: string }>(
      "select state from jobs where kind = 'account link' and organization_id = $1",
      [person.id],
    )
    return row?.state === 'done'
  })
  expect(await database.query("select 1 from account_links where purpose = 'reset'")).toEqual([])
})
