/** A page of the verification of meters reads its own organizations, and not all that come after them. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { explaining, type PlanNode } from '../../../test/explaining.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { comparePlanPeriods } from './store.ts'

const ORGANIZATIONS = 20_000
const PAGE = 20

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  const organization = "('00000000-0000-4000-8000-' || lpad(o::text, 12, '0'))::uuid"
  await fresh.database.query(
    `insert into plan_periods (organization_id, period_start, slot, input_tokens, output_tokens, list_microcents)
     select ${organization}, '2030-01-01T00:00:00Z', 0, 3, 5, 7 from generate_series(1, ${ORGANIZATIONS}) o`,
  )
  await fresh.database.query(
    `insert into plan_hours (organization_id, hour, period_start, slot, requests, input_tokens, output_tokens, list_microcents)
     select ${organization}, '2030-01-01T00:00:00Z', '2030-01-01T00:00:00Z', 0, 1, 3, 5, 7 from generate_series(1, ${ORGANIZATIONS}) o`,
  )
  await fresh.database.query('vacuum analyze plan_periods, plan_hours')
}, 60_000)
afterAll(() => fresh.drop())

/** Rows that a plan has read from tables and indexes. */
function rowsOf(node: PlanNode): number {
  const own = node['Relation Name'] === undefined ? 0 : node['Actual Rows'] * node['Actual Loops']
  return (node.Plans ?? []).reduce((sum, each) => sum + rowsOf(each), own)
}

test('a page in the middle', async () => {
  let read = 0
  const db = explaining(fresh.database, (plan) => {
    read += rowsOf(plan)
  })
  const after = '00000000-0000-4000-8000-000000005000'
  const { differences, lastId } = await comparePlanPeriods(db, after, PAGE)
  expect([differences, lastId]).toEqual([[], '00000000-0000-4000-8000-000000005020'])
  // Each of the two tables twice: for the page's ids, and for their sums.
  expect(read).toBeGreaterThan(0)
  expect(read).toBeLessThanOrEqual(5 * PAGE)
})
