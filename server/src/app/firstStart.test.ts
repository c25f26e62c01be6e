import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type FreshDatabase, freshDatabase } from '../../test/postgres.ts'
import { stallable } from '../../test/stalledDatabase.ts'
import { systemClock } from '../infra/clock.ts'
import { openClient } from '../infra/postgres/client.ts'
import { systemRandom } from '../infra/random.ts'
import { makeFirstKey } from './firstStart.ts'

const random = systemRandom()

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

/** Returns how many organizations, keys and ledger entries there are. */
async function counts() {
  const [row] = await fresh.database.query(
    `select (select count(*) from organizations) as organizations, (select count(*) from api_keys) as keys,
       (select count(*) from ledger_entries) as entries`,
  )
  return row
}

test('when the key can not be kept, nothing is made, and the next start makes it', async () => {
  const full = () => Promise.reject(new Error('no space left'))
  const failed = await makeFirstKey(fresh.database, systemClock, random, full).catch((error: unknown) => error)
  expect(String(failed)).toContain('no space left')
  expect(await counts()).toEqual({ organizations: 0n, keys: 0n, entries: 0n })
  expect(await makeFirstKey(fresh.database, systemClock, random, async () => {})).toEqual(expect.any(String))
  expect(await counts()).toEqual({ organizations: 1n, keys: 1n, entries: 1n })
})

test.each([
  ['looks for the organization', /from organizations where deleted_at is null and/],
  ['makes the organization', /insert into organizations/],
  ['makes the key', /insert into api_keys/],
] as const)('two first starts make one key together, when one starts just before the other %s', async (_, at) => {
  await fresh.database.query('truncate organizations, api_keys, accounts, ledger_entries cascade')
  const stalled = stallable(fresh.database, (text) => at.test(text))
  const other = openClient(fresh.url, { maxConnections: 2, clock: systemClock, applicationName: 'other first start' })
  const shown: string[] = []
  const keep = async (plaintext: string) => void shown.push(plaintext)
  stalled.stall('within')
  const first = makeFirstKey(stalled.database, systemClock, random, keep)
  while (stalled.waiting === 0) await fresh.database.query('select 1')
  let isOver = false
  const second = makeFirstKey(other, systemClock, random, keep).finally(() => {
    isOver = true
  })
  // The other has ended, or waits for the first one.
  const waits =
    "select 1 from pg_stat_activity where application_name = 'other first start' and wait_event_type = 'Lock'"
  while (!isOver && (await fresh.database.query(waits)).length === 0);
  stalled.recover('answered')
  const keys = await Promise.all([first, second])
  expect(keys.filter((key) => key !== null)).toEqual(shown)
  expect(shown).toHaveLength(1)
  expect(await counts()).toEqual({ organizations: 1n, keys: 1n, entries: 1n })
  await other.close()
})
