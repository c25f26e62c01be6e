import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { openVideoHouse, type VideoHouse } from '../../../test/videoHouse.ts'
import { MINUTE_MS } from '../../lib/time.ts'
import { startNext } from './start.ts'
import { readQueueSizes } from './store.ts'

const clock = new TurnedClock(Date.now())
let house: VideoHouse
beforeAll(async () => {
  house = await openVideoHouse(clock, { concurrency: 2 })
})
afterAll(() => house.close())

test('a queue is told by its length, its oldest job and what is under way', async () => {
  const organizations = [await house.organization(1_000_000_000n), await house.organization(1_000_000_000n)].toSorted()
  const [lower = '', higher = ''] = organizations
  const firstMs = clock.now()
  await house.create(higher)
  expect(await readQueueSizes(house.database)).toEqual([
    { model: 'svc/film', queued: 1, oldestAtMs: firstMs, underWay: 0 },
  ])
  await clock.turn(MINUTE_MS)
  const laterMs = clock.now()
  for (let count = 0; count < 3; count += 1) await house.create(lower)
  expect(await readQueueSizes(house.database)).toEqual([
    { model: 'svc/film', queued: 4, oldestAtMs: firstMs, underWay: 0 },
  ])
  expect(await startNext(house.process(), 'svc/film', 10, new AbortController().signal)).toHaveLength(2)
  expect(await readQueueSizes(house.database)).toEqual([
    { model: 'svc/film', queued: 2, oldestAtMs: laterMs, underWay: 2 },
  ])
})

test('a long queue is counted up to a bound', async () => {
  const crowd = await house.organization(1_000n)
  await house.database.query(
    `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, seconds, status)
     select gen_random_uuid(), $1::uuid, $1::uuid, '2026-01-01', 'svc/film', 'serverless', '\\x00', 1, 4, 'queued'
     from generate_series(1, 10100)`,
    [crowd],
  )
  expect(await readQueueSizes(house.database)).toEqual([
    { model: 'svc/film', queued: 10_000, oldestAtMs: Date.UTC(2026, 0, 1), underWay: 2 },
  ])
})
