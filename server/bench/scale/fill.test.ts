import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type FreshDatabase, freshDatabase } from '../../test/postgres.ts'
import { disagreementsOfAll } from './disagreements.ts'
import { fillBooks } from './fill.ts'

const SIZE = { organizations: 20, charges: 400, days: 40 }
/** On the first of a month: two months with charges are closed. */
const NOW_MS = Date.UTC(2030, 1, 1, 12)

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  await fillBooks(fresh.database, SIZE, NOW_MS)
}, 60_000)
afterAll(() => fresh.drop())

async function count(table: string): Promise<number> {
  const [row] = await fresh.database.query<{ rows: bigint }>(`select count(*) as rows from ${table}`)
  return Number(row?.rows)
}

test('books that were filled for a bench agree, and have what was asked for', async () => {
  expect(await disagreementsOfAll(fresh.database)).toEqual([])
  const tables = ['organizations', 'accounts', 'api_keys', 'charges', 'verified_days', 'closed_months']
  expect(await Promise.all(tables.map(count))).toEqual([20, 20, 20, 400, 39, 2])
})

test('a charge that was changed afterwards is found', async () => {
  const change = (by: string) => fresh.database.query(`update charges set cost_microcents = cost_microcents ${by}`)
  await change('+ 1')
  expect((await disagreementsOfAll(fresh.database)).length).toBeGreaterThan(0)
  await change('- 1')
  expect(await disagreementsOfAll(fresh.database)).toEqual([])
})
