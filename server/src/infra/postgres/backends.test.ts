import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { FreshDatabase } from '../../../test/postgres.ts'
import { freshDatabase } from '../../../test/postgres.ts'
import { systemClock } from '../clock.ts'
import { type Backend, endBackend, endBackends, findHolder, type LockHolder, listBackends } from './backends.ts'
import { newToken } from './processToken.ts'
import { openSession, type Session } from './session.ts'

const CLASS = 97
/** Beyond the int4 that a positive number of the server's would be. */
const ID = -7

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const open = (token: string) => openSession(fresh.url, systemClock, { kind: 'slot', token })

async function ownBackend(session: Session): Promise<LockHolder> {
  expect(await session.tryLock(CLASS, ID)).toBe(true)
  const holder = await findHolder(fresh.database, CLASS, ID)
  if (holder === null) throw new Error('nobody holds the lock')
  return holder
}

test('a lock names the connection that holds it, and when it was heard last', async () => {
  expect(await findHolder(fresh.database, CLASS, ID)).toBeNull()
  const token = newToken()
  const session = await open(token)
  const first = await ownBackend(session)
  expect(first.applicationName).toBe(`tollgate slot ${token}`)
  expect(first.silentMs).toBeGreaterThanOrEqual(0)
  await session.query('select 1')
  const second = await findHolder(fresh.database, CLASS, ID)
  expect(second).toMatchObject({ pid: first.pid, startedAt: first.startedAt })
  expect(second?.beatAt).not.toBe(first.beatAt)
  expect(await findHolder(fresh.database, CLASS, ID + 1)).toBeNull()
  await session.close()
})

test('a connection is ended only where its process id, its start and its name all are the same', async () => {
  const session = await open(newToken())
  const backend = await ownBackend(session)
  const startedAt = new Date(Date.parse(backend.startedAt ?? '') + 1).toISOString()
  const wrong: Backend[] = [
    { ...backend, startedAt },
    { ...backend, startedAt: null },
    { ...backend, applicationName: `tollgate slot ${newToken()}` },
    { ...backend, pid: backend.pid + 1 },
  ]
  for (const each of wrong) expect(await endBackend(fresh.database, each)).toBe(false)
  expect(await session.query('select 1 as one')).toEqual([{ one: 1 }])
  const isLost = new Promise<void>((resolve) => session.onLost(resolve))
  expect(await endBackend(fresh.database, backend)).toBe(true)
  await isLost
  expect(session.fellSilent).toBe(false)
})

test('all connections of one token are ended, and none of another, nor the one that asks', async () => {
  const [token, another] = [newToken(), newToken()]
  const [one, two, asking, other] = await Promise.all([open(token), open(token), open(token), open(another)])
  const areLost = Promise.all([one, two].map((each) => new Promise<void>((resolve) => each.onLost(resolve))))
  expect(await listBackends(asking, `% ${token}`)).toHaveLength(2)
  expect(await endBackends(asking, `% ${token}`)).toBe(2)
  await areLost
  expect([asking.lost, other.lost]).toEqual([false, false])
  await Promise.all([asking.close(), other.close()])
})
