/** The verification of a day reads the sums of that day, and not those of all days there are. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { explaining } from '../../../test/explaining.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { DAY_MS } from '../../lib/time.ts'
import { compareDay, compareDroppedDay } from './store.ts'

const DAYS = 120
const ORGANIZATIONS = 400
const FIRST_MS = Date.UTC(2030, 0, 1)
const SOME_DAY_MS = FIRST_MS + 40 * DAY_MS

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  // Written in the order of time, as charges are posted.
  await fresh.database.query(
    `insert into usage_days (organization_id, day, slot, requests, cost_microcents)
     select ('00000000-0000-4000-8000-' || lpad(o::text, 12, '0'))::uuid, '2030-01-01T00:00:00Z'::timestamptz + d * interval '1 day', 0, 1, 5
     from generate_series(0, ${DAYS - 1}) as d, generate_series(1, ${ORGANIZATIONS}) as o order by d, o`,
  )
  await fresh.database.query('vacuum analyze usage_days')
}, 60_000)
afterAll(() => fresh.drop())

/** Returns how many blocks a query reads, of tables and of indexes. */
async function blocksRead(ask: (db: Queryable) => Promise<unknown>): Promise<number> {
  let read = 0
  await ask(
    explaining(fresh.database, (plan) => {
      read += plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
    }),
  )
  return read
}

test.each([
  ['whose charges are there', (db: Queryable) => compareDay(db, SOME_DAY_MS, 10)],
  ['that was dropped', (db: Queryable) => compareDroppedDay(db, SOME_DAY_MS, 'charges:2030-02-10:', 0, 10)],
] as const)('a day %s', async (_, ask) => {
  const [size] = await fresh.database.query<{ blocks: bigint }>(
    `select pg_relation_size('usage_days') / current_setting('block_size')::bigint as blocks`,
  )
  const read = await blocksRead(ask)
  expect(read).toBeGreaterThan(0)
  // A range of the index has some blocks of the days beside it.
  expect(read).toBeLessThan(Number(size?.blocks) / 5)
})
