/** To find out if any answer is sealed with a data key reads an index, however many answers there are, and whatever the statistics say. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { explaining } from '../../../test/explaining.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { isAnswerSealedWith } from './store.ts'

const ANSWERS = 4_000

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  await fresh.database.query(
    `insert into idempotent_attempts (key_id, key_hash, fingerprint, attempt, slot, expires_at, organization_id, status, body, data_key)
     select gen_random_uuid(), decode(md5(n::text), 'hex'), decode(md5(n::text), 'hex'), gen_random_uuid(), 0, now() + interval '1 day',
       gen_random_uuid(), 200, decode(md5(n::text), 'hex'), 1
     from generate_series(1, ${ANSWERS}) as n`,
  )
  await fresh.database.query('analyze idempotent_attempts')
  // All are sealed anew; the statistics are of the time before.
  await fresh.database.query('update idempotent_attempts set data_key = 2')
  await fresh.database.query('vacuum idempotent_attempts')
}, 60_000)
afterAll(() => fresh.drop())

test.each([
  ['with the former one', 1, false],
  ['with the present one', 2, true],
  ['with a later one', 3, false],
])('%s', async (_, number, isSealed) => {
  const [size] = await fresh.database.query<{ blocks: bigint }>(
    `select pg_relation_size('idempotent_attempts') / current_setting('block_size')::bigint as blocks`,
  )
  let read = 0
  const database = explaining(fresh.database, (plan) => {
    read += plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
  })
  expect(await isAnswerSealedWith(database, number)).toBe(isSealed)
  expect(read).toBeGreaterThan(0)
  expect(read).toBeLessThan(Number(size?.blocks) / 5)
})
