import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { TurnedClock, turnUntil } from '../../../test/clock.ts'
import type { FreshDatabase } from '../../../test/postgres.ts'
import { freshDatabase } from '../../../test/postgres.ts'
import { type SilentProxy, startSilentProxy, throughProxy } from '../../../test/silentProxy.ts'
import { until } from '../../../test/until.ts'
import { LOCK_CLASS } from './locks.ts'
import { takeOwnership } from './ownership.ts'
import { newToken } from './processToken.ts'
import { openSession, type Session } from './session.ts'

const MINUTE_MS = 60_000

let fresh: FreshDatabase
let proxy: SilentProxy
let clock: TurnedClock
let said: string[]
let sessions: Session[]
/** Those that do not go through the proxy. */
let near: Session[]
/** Each test has a data directory of its own. */
let lockId = 0
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())
beforeEach(async () => {
  proxy = await startSilentProxy(fresh.url)
  clock = new TurnedClock()
  said = []
  sessions = []
  near = []
  lockId -= 1
})
afterEach(async () => {
  for (const session of sessions) await session.close()
  proxy.stop()
})

/** Behind a statement the answers to all earlier ones of its connection are read: none is taken for late on a busy machine. */
const look = () => Promise.all(near.map((session) => session.query('select 1')))

async function open(token: string | null, { isFar = false } = {}): Promise<Session> {
  const url = isFar ? throughProxy(fresh.url, proxy) : fresh.url
  const session = await openSession(url, clock, { kind: 'holder', token })
  sessions.push(session)
  if (!isFar) near.push(session)
  return session
}

/** Takes the data directory while the clock is turned; resolves to how it ended. */
async function take(
  session: Session,
  meanwhile: () => Promise<unknown> = look,
): Promise<{ words: string; tookMs: number }> {
  let words: string | null = null
  const startedMs = clock.monotonicMs()
  const log = (message: string) => void said.push(message)
  takeOwnership(session, { lockId, dataDir: '/data', clock, log }).then(
    () => (words = 'taken'),
    (error: Error) => (words = error.message),
  )
  await turnUntil(clock, () => words !== null, meanwhile)
  return { words: words ?? '', tookMs: clock.monotonicMs() - startedMs }
}

async function pidOf(session: Session): Promise<number> {
  return (await session.query<{ pid: number }>('select pg_backend_pid() as pid'))[0]?.pid ?? 0
}

/** Returns whether a connection is still there. */
async function lives(pid: number): Promise<boolean> {
  return (await fresh.database.query('select 1 from pg_stat_activity where pid = $1::int4', [pid])).length > 0
}

test('a server that lives is seen by its next statement, and refuses a second one within 3 s', async () => {
  const [first, second] = [await open(newToken()), await open(newToken())]
  await take(first)
  const { words, tookMs } = await take(second)
  expect(words).toBe(
    'Another Tollgate server already serves from the data directory /data; stop it, or start this one with another --data-dir.',
  )
  expect(tookMs).toBeLessThan(3_000)
  expect([first.lost, said]).toEqual([false, []])
  // Without a token, or with that of another kind, nothing is taken for one's own.
  expect(await (await open(null)).endOlder(LOCK_CLASS.ownership, lockId)).toBe(false)
  expect(await first.query('select 1 as one')).toEqual([{ one: 1 }])
})

test('a connection of its own that the network swallows is ended at once', async () => {
  const token = newToken()
  const first = await open(token, { isFar: true })
  expect(await first.tryLock(LOCK_CLASS.ownership, lockId)).toBe(true)
  const pid = await pidOf(first)
  proxy.forget()
  // The clock stands still while the server is ending it, which takes as long as the machine is busy.
  const hasEnded = () => until(async () => !(await lives(pid)))
  const { words, tookMs } = await take(await open(token), () => Promise.all([hasEnded(), look()]))
  expect([words, said]).toEqual(['taken', []])
  expect(tookMs).toBeLessThan(1_000)
  expect(await lives(pid)).toBe(false)
})

test("another server's silent connection is waited for, said once, and refuses after a minute; it is never ended", async () => {
  const first = await open(newToken(), { isFar: true })
  expect(await first.tryLock(LOCK_CLASS.ownership, lockId)).toBe(true)
  const pid = await pidOf(first)
  proxy.forget()
  const { words, tookMs } = await take(await open(newToken()))
  expect(words).toStartWith('Another Tollgate server already serves from the data directory /data, and its connection')
  expect(words).toContain(`select pg_terminate_backend(${pid})`)
  expect(said).toHaveLength(1)
  expect(said[0]).toContain('has been silent for 5 s; waiting for up to 60 s')
  expect(tookMs).toBeWithin(MINUTE_MS, MINUTE_MS + 1_000)
  expect(await lives(pid)).toBe(true)
})

test("another server's silent connection that ends in time leaves the data directory to the one that waits", async () => {
  const first = await open(newToken(), { isFar: true })
  expect(await first.tryLock(LOCK_CLASS.ownership, lockId)).toBe(true)
  const pid = await pidOf(first)
  proxy.forget()
  const second = await open(newToken())
  let isTaken = false
  void takeOwnership(second, { lockId, dataDir: '/data', clock, log: (message) => void said.push(message) }).then(
    () => (isTaken = true),
  )
  await turnUntil(clock, () => said.length > 0, look)
  await fresh.database.query('select pg_terminate_backend($1::int4)', [pid])
  await turnUntil(clock, () => isTaken, look)
  expect(said).toHaveLength(1)
})

test('a server that was stopped and goes on while it is waited for is known to live', async () => {
  const own = new TurnedClock()
  const first = await openSession(fresh.url, own)
  sessions.push(first)
  expect(await first.tryLock(LOCK_CLASS.ownership, lockId)).toBe(true)
  const second = await open(newToken())
  let words: string | null = null
  const log = (message: string) => {
    said.push(message)
    void own.turn(1_000)
  }
  takeOwnership(second, { lockId, dataDir: '/data', clock, log }).catch((error: Error) => (words = error.message))
  await turnUntil(clock, () => words !== null, look)
  expect([words, said.length, first.lost]).toEqual([expect.stringContaining('; stop it, or start'), 1, false])
})
