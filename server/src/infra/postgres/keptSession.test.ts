import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { FreshDatabase } from '../../../test/postgres.ts'
import { freshDatabase } from '../../../test/postgres.ts'
import { systemClock } from '../clock.ts'
import { keepSession, SessionOwnershipLost } from './keptSession.ts'
import type { Session } from './session.ts'
import { openSession } from './session.ts'

const CLASS = 98

let fresh: FreshDatabase

beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

async function cut(session: Session): Promise<void> {
  const told = new Promise<void>((resolve) => session.onLost(resolve))
  await session.query('select pg_terminate_backend(pg_backend_pid())').catch(() => {})
  await told
}

test('locks that were lost with their connection are taken again', async () => {
  let connected = () => {}
  let calls = 0
  const connect = async () => {
    calls += 1
    if (calls === 2) throw new Error('not yet')
    const session = await openSession(fresh.url, systemClock)
    expect(await session.tryLock(CLASS, 1)).toBe(true)
    return session
  }
  const said: string[] = []
  const log = (message: string) => {
    said.push(message)
    if (message.startsWith('connected')) connected()
  }
  const holding = await keepSession(connect, { clock: systemClock, log, onLost: () => {} })
  const first = holding.session()
  const again = new Promise<void>((resolve) => {
    connected = resolve
  })
  await cut(first)
  await again
  expect(holding.session()).not.toBe(first)
  expect(holding.session().lost).toBe(false)
  expect(said).toContain('the database is still away: not yet')
  holding.letGo()
  await holding.session().close()
})

test('when somebody else has the locks by then, that is said once and no more tried', async () => {
  let calls = 0
  const connect = async () => {
    calls += 1
    if (calls > 1) throw new SessionOwnershipLost('taken')
    return await openSession(fresh.url, systemClock)
  }
  const lost = Promise.withResolvers<string>()
  const holding = await keepSession(connect, { clock: systemClock, log: () => {}, onLost: lost.resolve })
  await cut(holding.session())
  expect(await lost.promise).toBe('taken')
  expect(calls).toBe(2)
  await holding.session().close()
})

test('a hold that was let go is not regained', async () => {
  let calls = 0
  const connect = async () => {
    calls += 1
    return await openSession(fresh.url, systemClock)
  }
  const holding = await keepSession(connect, { clock: systemClock, log: () => {}, onLost: () => {} })
  holding.letGo()
  await cut(holding.session())
  expect(calls).toBe(1)
})
