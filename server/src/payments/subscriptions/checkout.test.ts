/** Checkouts for subscriptions that are looked at while they are opened. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { makeCustomer } from '../../../test/customer.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { SILENCE } from '../../../test/silence.ts'
import type { Plan } from '../../catalog/plan.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { systemRandom } from '../../infra/random.ts'
import { MINUTE_MS } from '../../lib/time.ts'
import { createLocalProvider } from '../local/provider.ts'
import { openSubscriptionCheckout, refreshSubscriptionCheckout } from './checkout.ts'
import { noPrices } from './prices.ts'

const random = systemRandom()
const clock = new TurnedClock(Date.UTC(2030, 0, 15, 12))
const quota = { inputTokens: 1, outputTokens: 1, weeklyTokens: 1, backstopMicrocents: 0n }
const PLAN: Plan = { key: 'small', name: 'Small', graceMs: 0, quota, paymentPrice: 'local_2000_month' }
let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

test('a checkout that was opened while the sweep looked at it stays open, and is looked at again', async () => {
  const { database } = fresh
  const provider = createLocalProvider({ database, clock, random, pageUrl: (path) => `https://t.test${path}` })
  const dependencies = { database, clock, random, provider, log: SILENCE, plans: () => [PLAN] }
  const { organizationId } = await makeCustomer(database, { cents: 0 }, clock)
  const asked = Promise.withResolvers<void>()
  const answered = Promise.withResolvers<void>()
  const slow: typeof provider = {
    ...provider,
    async openSubscriptionCheckout(wanted) {
      asked.resolve()
      await answered.promise
      return provider.openSubscriptionCheckout(wanted)
    },
  }
  const urls = { successUrl: 'https://t.test/done', cancelUrl: 'https://t.test/no' }
  const opening = openSubscriptionCheckout(
    { ...dependencies, provider: slow, readPrice: noPrices },
    { organizationId, planKey: 'small', ...urls, keep: async () => [] },
  )
  await asked.promise
  await clock.turn(6 * MINUTE_MS)
  const rows = () =>
    database.query<{ id: string; state: string; due_at: Date | null }>('select * from subscription_checkouts')
  const [row] = await rows()
  // The sweep has read that it is being opened, and is slow.
  const sweeping: Database = {
    ...database,
    transaction: (work) => database.transaction(work),
    async query<Row>(text: string, parameters?: Parameters<Database['query']>[1]) {
      const found = await database.query<Row>(text, parameters)
      answered.resolve()
      await opening
      return found
    },
  }
  await refreshSubscriptionCheckout({ ...dependencies, database: sweeping }, { id: row?.id ?? '' })
  expect(await rows()).toMatchObject([{ state: 'open', due_at: expect.any(Date) }])
})
