import { afterAll, beforeAll, expect, test } from 'bun:test'
import { randomBytes, randomUUID } from 'node:crypto'
import { TurnedClock } from '../../../test/clock.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { MINUTE_MS, SECOND_MS } from '../../lib/time.ts'
import { createAuthenticator } from './authenticate.ts'
import { createKey } from './create.ts'
import { listKeys } from './list.ts'
import { parseScopes } from './scopes.ts'
import { createKeyUses } from './uses.ts'

const START_MS = Date.UTC(2030, 0, 1)
const ORGANIZATION = randomUUID()

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  await fresh.database.query(
    "insert into organizations (id, name, standing, created_at) values ($1, 'acme', 'established', $2)",
    [ORGANIZATION, new Date(START_MS)],
  )
})
afterAll(() => fresh.drop())

async function makeKey(clock: TurnedClock) {
  const scopes = parseScopes('full_access')
  if (!scopes.ok) throw new Error(scopes.refusal.message)
  const { record, plaintext } = await createKey(
    { database: fresh.database, clock, randomBytes },
    { organizationId: ORGANIZATION, scopes: scopes.value, admin: false, expiresAtMs: null },
  )
  return { id: record.id, header: `Bearer ${plaintext}` }
}

/** A process: what it authenticates by, and its uses. Counts its statements. */
function openProcess(clock: TurnedClock) {
  const counted = { statements: 0, isGone: false }
  const database: Queryable = {
    query: (text, parameters) => {
      counted.statements += 1
      return counted.isGone ? Promise.reject(new Error('gone')) : fresh.database.query(text, parameters)
    },
  }
  const uses = createKeyUses(database)
  const { authenticate, onConfirmed } = createAuthenticator({
    database: fresh.database,
    clock,
    report: () => undefined,
    uses,
  })
  onConfirmed(true)
  return { counted, uses, use: (header: string | null) => authenticate(header, () => '203.0.113.9') }
}

const lastUseOf = async (id: string) =>
  (await listKeys(fresh.database, ORGANIZATION)).find((key) => key.id === id)?.lastUsedAtMs

test('a key that is used is shown with its last use; one that is not, or is refused, with none', async () => {
  const clock = new TurnedClock(START_MS)
  const [used, unused] = [await makeKey(clock), await makeKey(clock)]
  const { use, uses, counted } = openProcess(clock)
  await clock.turn(5 * SECOND_MS)
  for (let calls = 0; calls < 50; calls += 1) expect((await use(used.header)).ok).toBe(true)
  await use(`${unused.header}x`)
  expect(counted.statements).toBe(0)
  await uses.write()
  expect(counted.statements).toBe(1)
  expect(await lastUseOf(used.id)).toBe(START_MS + 5 * SECOND_MS)
  expect(await lastUseOf(unused.id)).toBeNull()
  await uses.write()
  expect(counted.statements).toBe(1)
})

test('of a key at most one use a minute is written, whatever process it is used in', async () => {
  const clock = new TurnedClock(START_MS)
  const key = await makeKey(clock)
  const processes = [openProcess(clock), openProcess(clock)]
  const written = new Set<number>()
  for (let second = 0; second < 240; second += 15) {
    await processes[second % 2]?.use(key.header)
    await processes[1]?.use(key.header)
    for (const { uses } of processes) await uses.write()
    written.add((await lastUseOf(key.id)) ?? 0)
    await clock.turn(15 * SECOND_MS)
  }
  const instants = [...written].sort()
  expect(instants.length).toBe(4)
  for (const [index, atMs] of instants.entries())
    expect(atMs - (instants[index - 1] ?? 0)).toBeGreaterThanOrEqual(MINUTE_MS)
})

test('uses that can not be written are kept, and a thousand keys are one statement', async () => {
  const clock = new TurnedClock(START_MS)
  const key = await makeKey(clock)
  const { use, uses, counted } = openProcess(clock)
  await use(key.header)
  counted.isGone = true
  await expect(uses.write()).rejects.toThrow('gone')
  counted.isGone = false
  for (let other = 1; other < 1_000; other += 1) uses.note(randomUUID(), START_MS)
  const before = counted.statements
  await uses.write()
  expect(counted.statements).toBe(before + 1)
  expect(await lastUseOf(key.id)).toBe(START_MS)
})
