import { afterAll, beforeAll, expect, test } from 'bun:test'
import { randomBytes, randomUUID } from 'node:crypto'
import { TurnedClock } from '../../../test/clock.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { createOpenCalls } from '../../http/openCalls.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { createKey } from './create.ts'
import { createKeyEnds, KEYS_LOOK_MS } from './endCalls.ts'
import { revokeKey } from './revoke.ts'
import { parseScopes } from './scopes.ts'

const START_MS = Date.UTC(2030, 0, 1)
const ORGANIZATION = randomUUID()
const clock = new TurnedClock(START_MS)
let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  await fresh.database.query(
    "insert into organizations (id, name, standing, created_at) values ($1, 'acme', 'established', now())",
    [ORGANIZATION],
  )
})
afterAll(() => fresh.drop())

async function makeKey(expiresAtMs: number | null = null) {
  const scopes = parseScopes('full_access')
  if (!scopes.ok) throw new Error(scopes.refusal.message)
  const { record } = await createKey(
    { database: fresh.database, clock, randomBytes },
    { organizationId: ORGANIZATION, scopes: scopes.value, admin: false, expiresAtMs },
  )
  return record
}

/** A process, with the calls that were ended in it. */
function openProcess() {
  const openCalls = createOpenCalls()
  const ended: string[] = []
  let queries = 0
  let isAway = false
  const database: Queryable = {
    query(text, parameters) {
      queries += 1
      return isAway ? Promise.reject(new Error('gone')) : fresh.database.query(text, parameters)
    },
  }
  return {
    ended,
    ends: createKeyEnds({ database, clock, openCalls }),
    call: (key: Awaited<ReturnType<typeof makeKey>>, name: string) => openCalls.add(key, () => void ended.push(name)),
    openCalls,
    queries: () => queries,
    goAway: (away: boolean) => {
      isAway = away
    },
  }
}

test('a look comes often enough that a call ends within two seconds', () => {
  expect(KEYS_LOOK_MS).toBeLessThanOrEqual(1_000)
})

test('calls of a revoked key end at the next look, those of others and those that are over do not', async () => {
  const { ends, call, ended, openCalls } = openProcess()
  ends.setCurrent(true)
  const [revoked, good] = [await makeKey(), await makeKey()]
  call(revoked, 'one')
  call(revoked, 'over')()
  call(revoked, 'two')
  const leave = call(good, 'good')
  await revokeKey({ database: fresh.database, clock }, revoked.id)
  ends.hear()
  await ends.look()
  expect(ended).toEqual(['one', 'two'])
  leave()
  expect(openCalls.keys()).toEqual([])
})

test('without news the database is asked nothing; without calls neither', async () => {
  const { ends, call, queries } = openProcess()
  ends.setCurrent(true)
  ends.hear()
  await ends.look()
  expect(queries()).toBe(0)
  await clock.turn(90_000)
  call(await makeKey(), 'call')
  await ends.look()
  expect(queries()).toBe(0)
  ends.hear()
  await ends.look()
  await clock.turn(90_000)
  await ends.look()
  expect(queries()).toBe(1)
})

test('a call that is registered after the news, because its body came late, ends too', async () => {
  const { ends, call, ended } = openProcess()
  ends.setCurrent(true)
  const key = await makeKey()
  await revokeKey({ database: fresh.database, clock }, key.id)
  ends.hear()
  await ends.look()
  await clock.turn(60_000)
  call(key, 'late')
  await ends.look()
  expect(ended).toEqual(['late'])
})

test('while news may be missed the database is asked at each look, and once more when it is heard again', async () => {
  const { ends, call, ended } = openProcess()
  const [first, second] = [await makeKey(), await makeKey()]
  call(first, 'first')
  call(second, 'second')
  await revokeKey({ database: fresh.database, clock }, first.id)
  await ends.look()
  expect(ended).toEqual(['first'])
  await revokeKey({ database: fresh.database, clock }, second.id)
  ends.setCurrent(true)
  await ends.look()
  expect(ended).toEqual(['first', 'second'])
})

test('a database that is away is asked again at the next look', async () => {
  const { ends, call, ended, goAway } = openProcess()
  ends.setCurrent(true)
  const key = await makeKey()
  call(key, 'call')
  await revokeKey({ database: fresh.database, clock }, key.id)
  ends.hear()
  goAway(true)
  await ends.look()
  expect(ended).toEqual([])
  goAway(false)
  await ends.look()
  expect(ended).toEqual(['call'])
})

test('a key ends its calls at the instant of its expiry', async () => {
  const { ends, call, ended } = openProcess()
  ends.setCurrent(true)
  call(await makeKey(clock.now() + 1_000), 'call')
  await clock.turn(999)
  await ends.look()
  expect(ended).toEqual([])
  await clock.turn(1)
  await ends.look()
  expect(ended).toEqual(['call'])
})

test('calls end at an expiry that was set while they ran, and go on where it was put off', async () => {
  const { ends, call, ended } = openProcess()
  ends.setCurrent(true)
  const [shortened, extended] = [await makeKey(), await makeKey(clock.now() + 4_000)]
  call(shortened, 'shortened')
  call(extended, 'extended')
  await setExpiry(shortened.id, clock.now() + 2_000)
  await setExpiry(extended.id, clock.now() + 3_600_000)
  ends.hear()
  await ends.look()
  expect(ended).toEqual([])
  await clock.turn(2_000)
  await ends.look()
  expect(ended).toEqual(['shortened'])
  await clock.turn(3_000)
  await ends.look()
  expect(ended).toEqual(['shortened'])
  await clock.turn(3_600_000)
  await ends.look()
  expect(ended).toEqual(['shortened', 'extended'])
})

test('a key whose expiry was put off without news keeps its calls; while the database is away, what is known counts', async () => {
  const { ends, call, ended, goAway } = openProcess()
  ends.setCurrent(true)
  await clock.turn(90_000)
  const [extended, other] = [await makeKey(clock.now() + 1_000), await makeKey(clock.now() + 5_000)]
  call(extended, 'extended')
  call(other, 'other')
  await setExpiry(extended.id, clock.now() + 3_600_000)
  await clock.turn(1_000)
  await ends.look()
  expect(ended).toEqual([])
  goAway(true)
  await clock.turn(4_000)
  await ends.look()
  expect(ended).toEqual(['other'])
})

const setExpiry = (id: string, atMs: number) =>
  fresh.database.query('update api_keys set expires_at = $2 where id = $1', [id, new Date(atMs)])
