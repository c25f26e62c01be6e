/** Every write of a balance that leaves it below the threshold of auto-pay makes the job (B5). */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { makeCustomer } from '../../../../test/customer.ts'
import { type FreshDatabase, freshDatabase } from '../../../../test/postgres.ts'
import { until } from '../../../../test/until.ts'
import { systemRandom } from '../../../infra/random.ts'
import { uuidV7 } from '../../../lib/ids.ts'
import { MICROCENTS_PER_CENT } from '../../../lib/money.ts'
import { renewShares } from '../renewal/renew.ts'
import { claimAutoPay, lockAccountAutoPay, readAccountAutoPay, setAccountAutoPay } from './autoPay.ts'
import { postLedgerEntry } from './balance.ts'

const NOW_MS = Date.UTC(2030, 0, 15, 12)
const SLOT = 7
const cents = (count: number) => BigInt(count) * MICROCENTS_PER_CENT

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

/** An account with $10 whose auto-pay begins below $5. */
async function account(dueAtMs: number | null = null): Promise<string> {
  const { organizationId } = await makeCustomer(fresh.database, { cents: 1_000 })
  await set(organizationId, dueAtMs)
  return organizationId
}

const set = (organizationId: string, dueAtMs: number | null) =>
  fresh.database.transaction(async (tx) => {
    await lockAccountAutoPay(tx, organizationId)
    await setAccountAutoPay(tx, organizationId, { thresholdMicrocents: cents(500), dueAtMs })
  })

const dueOf = async (organizationId: string) =>
  (await readAccountAutoPay(fresh.database, organizationId))?.dueAtMs ?? null

/** The spend that a process has posted and not folded. */
async function spent(organizationId: string, count: number): Promise<void> {
  const [minute, amount] = [new Date(NOW_MS), cents(count)]
  await fresh.database.query(
    'insert into account_shares (organization_id, slot, granted_microcents) values ($1::uuid, $2, $3)',
    [organizationId, SLOT, amount],
  )
  await fresh.database.query(
    'insert into unfolded_spend (organization_id, slot, minute, spent_microcents) values ($1::uuid, $2, $3, $4)',
    [organizationId, SLOT, minute, amount],
  )
  await fresh.database.query('update accounts set shares_microcents = $2 where organization_id = $1::uuid', [
    organizationId,
    amount,
  ])
}

const renew = (organizationId: string, admission = 0n) =>
  renewShares(
    fresh.database,
    SLOT,
    new Map([[organizationId, { admission, least: 0n, extension: 0n, giveBack: null }]]),
    NOW_MS,
  )

const post = (organizationId: string, count: number) =>
  fresh.database.transaction((tx) =>
    postLedgerEntry(tx, {
      id: uuidV7(NOW_MS, systemRandom()),
      organizationId,
      amountMicrocents: cents(count),
      kind: 'adjustment',
      source: `adjustment:${crypto.randomUUID()}`,
      note: 'test',
      postedAtMs: NOW_MS,
    }),
  )

test.each([
  [499, null],
  [500, null],
  [501, NOW_MS],
])('%p cents that a renewal folds: the job is due at %p', async (count, dueAtMs) => {
  const id = await account()
  await spent(id, count)
  await renew(id)
  expect(await dueOf(id)).toBe(dueAtMs)
})

test.each([
  [-500, null],
  [-501, NOW_MS],
  [500, null],
])('an entry of %p cents in the ledger: the job is due at %p', async (count, dueAtMs) => {
  const id = await account()
  await post(id, count)
  expect(await dueOf(id)).toBe(dueAtMs)
})

test('a job that waits keeps its instant, whatever is written; a credit leaves it too', async () => {
  const id = await account(NOW_MS + 5)
  await post(id, -900)
  await spent(id, 10)
  await renew(id)
  await post(id, 5_000)
  expect(await dueOf(id)).toBe(NOW_MS + 5)
})

test('a grant stops at the threshold, as far as more is not needed, so that passing it is seen', async () => {
  const id = await account()
  await fresh.database.query(
    'update accounts set auto_pay_threshold_microcents = $2 where organization_id = $1::uuid',
    [id, cents(900)],
  )
  // A quarter of the headroom would be 250 cents.
  expect((await renew(id, cents(20)))[0]).toMatchObject({ grantedMicrocents: cents(100), reachesNotice: false })
  const other = await account()
  expect((await renew(other, cents(20)))[0]).toMatchObject({ grantedMicrocents: cents(250) })
})

test('a renewal that waited for the end of a payment makes the next job', async () => {
  const id = await account(NOW_MS - 1)
  await spent(id, 600)
  const { promise: isWaiting, resolve: waits } = Promise.withResolvers<void>()
  const renewed = isWaiting.then(() => renew(id))
  await fresh.database.transaction(async (tx) => {
    await lockAccountAutoPay(tx, id)
    waits()
    // The statement has begun, and sees the job that is ended here.
    const words = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
    // Not in the transaction: there a backend that is new would not be seen.
    await until(async () => (await fresh.database.query(words)).length > 0)
    await setAccountAutoPay(tx, id, { thresholdMicrocents: cents(500), dueAtMs: null })
  })
  await renewed
  expect(await dueOf(id)).toBe(NOW_MS)
})

test('of many processes one claims a job', async () => {
  const id = await account(NOW_MS)
  const claims = await Promise.all(
    Array.from({ length: 20 }, () => claimAutoPay(fresh.database, NOW_MS, NOW_MS + 1_000, 8)),
  )
  expect(claims.flat().filter((claimed) => claimed === id)).toEqual([id])
})
