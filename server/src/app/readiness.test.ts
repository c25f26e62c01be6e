import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { type FreshDatabase, freshDatabase } from '../../test/postgres.ts'
import { stallable } from '../../test/stalledDatabase.ts'
import { SECOND_MS } from '../lib/time.ts'
import { checkReadiness, clockReasons } from './readiness.ts'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const working = { reasons: () => [] }

test('a database that stops answering is told within two seconds', async () => {
  const stalled = stallable(fresh.database)
  const clock = new TurnedClock(Date.now())
  const check = () => checkReadiness({ ...working, database: stalled.database, clock })
  expect(await check()).toEqual([])
  stalled.stall('before')
  let reasons: readonly string[] | null = null
  const checking = check().then((found) => {
    reasons = found
  })
  await clock.turn(2 * SECOND_MS - 1)
  expect(reasons).toBeNull()
  await clock.turn(1)
  await checking
  expect(reasons as readonly string[] | null).toEqual(['the database does not answer'])
  stalled.recover('lost')
  expect(await check()).toEqual([])
  expect(clock.pending).toBe(0)
})

test('everything that stands in the way is told', async () => {
  // The date of this machine is no reason (E20).
  const clock = new TurnedClock(Date.UTC(1999, 0, 1))
  const trouble = () => 'the database’s clock is 72000.0 s ahead of what this process counted'
  const reasons = () => ['the server is stopping', 'charges are not being committed', ...clockReasons(trouble)]
  expect(await checkReadiness({ reasons, database: fresh.database, clock })).toEqual([
    'the server is stopping',
    'charges are not being committed',
    'the database’s clock is 72000.0 s ahead of what this process counted',
  ])
})
