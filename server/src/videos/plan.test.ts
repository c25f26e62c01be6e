/** The cost of a new job does not grow with the jobs that others have waiting, however few organizations share the table. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { FastClock } from '../../test/moneyHouse.ts'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import { countQueued } from './store.ts'

const CENT = 1_000_000n
const WAITING = 20_000
/** PostgreSQL keeps a plan for a statement after five that it made for single values. */
const TIMES = 8

let house: VideoHouse
beforeAll(async () => {
  house = await openVideoHouse(new FastClock(Date.UTC(2030, 0, 15, 12)))
})
afterAll(() => house.close())

test('the waiting jobs of an organization are counted by their index', async () => {
  const [crowd, own] = [await house.organization(100n * CENT), await house.organization(100n * CENT)]
  await house.create(own)
  await house.database.query(
    `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, seconds, status, due_at)
     select gen_random_uuid(), $1::uuid, $1::uuid, 'epoch', 'svc/film', 'serverless', '', 1, 4, 'queued', 'infinity'
     from generate_series(1, $2::integer)`,
    [crowd, WAITING],
  )
  await house.database.query('vacuum analyze videos')
  await house.database.transaction(async (tx) => {
    for (let time = 0; time < TIMES; time += 1) expect(await countQueued(tx, own, 1_000)).toBe(1)
    const read = await tx.query<{ whole: bigint }>(
      `select seq_scan as whole from pg_stat_xact_user_tables where relname = 'videos'`,
    )
    expect(read).toEqual([{ whole: 0n }])
  })
})
