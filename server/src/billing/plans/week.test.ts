/** The hours that count for a plan's week. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { makeCustomer } from '../../../test/customer.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { DAY_MS, HOUR_MS, toTimestamp, WEEK_MS } from '../../lib/time.ts'
import { setSubscription } from './setSubscription.ts'
import { readPlanStates } from './store.ts'

const HOUR_STARTS_MS = Date.UTC(2030, 0, 15, 12)
const PERIOD = { periodStartMs: HOUR_STARTS_MS - 100 * DAY_MS, periodEndMs: HOUR_STARTS_MS + 100 * DAY_MS }

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
}, 60_000)
afterAll(() => fresh.drop())

test('an hour of the last 7 days counts, and one that a clock ahead has metered counts once it comes', async () => {
  const { database } = fresh
  const { organizationId } = await makeCustomer(database, { cents: 0 })
  await setSubscription(
    database,
    organizationId,
    { planKey: 'plan', paymentPrice: 'price', status: 'active', ...PERIOD, cancelAtPeriodEnd: false },
    HOUR_STARTS_MS,
  )
  const hours = [-WEEK_MS - HOUR_MS, -WEEK_MS, 0, HOUR_MS, DAY_MS]
  for (const [index, hour] of hours.entries()) {
    await database.query(
      `insert into plan_hours (organization_id, hour, period_start, slot, requests, input_tokens, output_tokens, list_microcents)
       values ($1::uuid, $2::timestamptz, $3::timestamptz, 0, 1, $4::bigint, 0, 0)`,
      [organizationId, toTimestamp(HOUR_STARTS_MS + hour), toTimestamp(PERIOD.periodStartMs), 10 ** index],
    )
  }
  const weekAt = async (atMs: number) =>
    (await readPlanStates(database, [organizationId], atMs)).get(organizationId)?.usage.weeklyTokens
  expect(await weekAt(HOUR_STARTS_MS)).toBe(110n)
  expect(await weekAt(HOUR_STARTS_MS + HOUR_MS)).toBe(1_100n)
})
