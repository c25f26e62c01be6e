import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import type { FreshDatabase } from '../../../test/postgres.ts'
import { freshDatabase } from '../../../test/postgres.ts'
import { startSilentProxy, throughProxy } from '../../../test/silentProxy.ts'
import { systemClock } from '../clock.ts'
import { findHolder } from './backends.ts'
import { isConnectionFailure } from './faults.ts'
import type { Session } from './session.ts'
import { openSession } from './session.ts'

const CLASS = 99

let fresh: FreshDatabase

beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

function whenLost(session: Session): Promise<void> {
  return new Promise((resolve) => session.onLost(resolve))
}

test('a lock has one holder, and is free when its holder gives it up or closes', async () => {
  const [first, second] = await Promise.all([openSession(fresh.url, systemClock), openSession(fresh.url, systemClock)])
  expect(await first.tryLock(CLASS, 1)).toBe(true)
  expect(await second.tryLock(CLASS, 1)).toBe(false)
  expect(await second.tryLock(CLASS, 2)).toBe(true)
  expect(await first.unlock(CLASS, 1)).toBe(true)
  expect(await second.tryLock(CLASS, 1)).toBe(true)
  await second.close()
  // The server frees the locks when it sees the connection end, a moment after close.
  while (!(await first.tryLock(CLASS, 1))) await first.query('select 1')
  await first.close()
})

test('shared locks keep out the exclusive one', async () => {
  const [first, second] = await Promise.all([openSession(fresh.url, systemClock), openSession(fresh.url, systemClock)])
  expect(await first.tryLockShared(CLASS, 3)).toBe(true)
  expect(await second.tryLockShared(CLASS, 3)).toBe(true)
  expect(await first.unlockShared(CLASS, 3)).toBe(true)
  expect(await first.tryLock(CLASS, 3)).toBe(false)
  expect(await second.unlockShared(CLASS, 3)).toBe(true)
  expect(await first.tryLock(CLASS, 3)).toBe(true)
  expect(await second.tryLockShared(CLASS, 3)).toBe(false)
  await Promise.all([first.close(), second.close()])
})

test('a session whose connection is cut says so and never comes back', async () => {
  const session = await openSession(fresh.url, systemClock)
  const told = whenLost(session)
  const [row] = await session.query<{ pid: number }>('select pg_backend_pid() as pid')
  await fresh.database.query('select pg_terminate_backend($1::int)', [row?.pid ?? 0])
  await told
  expect(session.lost).toBe(true)
  await whenLost(session)
  const error = await session.tryLock(CLASS, 4).catch((caught: unknown) => caught)
  expect(isConnectionFailure(error)).toBe(true)
  await session.close()
})

test('closing a session is not losing it', async () => {
  const session = await openSession(fresh.url, systemClock)
  let told = false
  session.onLost(() => {
    told = true
  })
  await session.close()
  expect(told).toBe(false)
})

test('a connection that falls silent is lost within 3 s, and says why', async () => {
  const proxy = await startSilentProxy(fresh.url)
  const clock = new TurnedClock()
  const session = await openSession(throughProxy(fresh.url, proxy), clock)
  const told = whenLost(session)
  proxy.fallSilent()
  await clock.turn(1_000)
  await clock.turn(1_500)
  expect(session.lost).toBe(false)
  await clock.turn(500)
  expect([session.lost, session.fellSilent]).toEqual([true, true])
  await told
  expect(clock.pending).toBe(0)
  proxy.stop()
})

test('a session shows every second that it lives, to those who look at its lock', async () => {
  const clock = new TurnedClock()
  const session = await openSession(fresh.url, clock)
  await session.tryLock(CLASS, 5)
  const beatAt = async () => (await findHolder(fresh.database, CLASS, 5))?.beatAt
  for (let second = 0; second < 3; second += 1) {
    // Behind a statement, the answer to the beat before it is read.
    await session.query('select 1')
    const before = await beatAt()
    expect(before).toBeString()
    await clock.turn(1_000)
    while ((await beatAt()) === before);
  }
  await session.close()
})

test('a process that was stopped and goes on reads the answer that came meanwhile before it gives up', async () => {
  const clock = new TurnedClock()
  const session = await openSession(fresh.url, clock)
  await clock.turn(1_000)
  await clock.turn(1_500)
  await session.query('select 1')
  await clock.turn(500)
  expect(session.lost).toBe(false)
  await session.close()
  expect(clock.pending).toBe(0)
})
