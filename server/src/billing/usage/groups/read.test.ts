import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../../../test/clock.ts'
import { openUsageBooks, randomOf, sumOf, USAGE_KEYS, type UsageBooks } from '../../../../test/usageBooks.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { DAY_MS, HOUR_MS, toTimestamp } from '../../../lib/time.ts'
import type { Charge } from '../../charges/charge.ts'
import type { UsageGroupings } from './group.ts'
import { lockUsageSums } from './sums/store.ts'

const clock = new TurnedClock(Date.UTC(2030, 0, 30, 12))

/** Runs in the middle of the next answer: before the statement that adds up. */
let inTheMiddle: (() => Promise<unknown>) | null = null

let usage: UsageBooks
beforeAll(async () => {
  usage = await openUsageBooks(clock, withMiddle)
}, 60_000)
afterAll(() => usage.books.drop())

function withMiddle(database: Database): Database {
  return {
    ...database,
    transaction: (work, owner) =>
      database.transaction(
        (tx) =>
          work({
            ...tx,
            async query(statement, parameters) {
              const run = statement.includes('added_up') ? inTheMiddle : null
              if (run !== null) inTheMiddle = null
              await run?.()
              return tx.query(statement, parameters)
            },
          }),
        owner,
      ),
  }
}

/** Whole days up to the end of the hour that goes on. */
function lastDays(days: number) {
  return {
    startMs: Math.floor(clock.now() / DAY_MS - days) * DAY_MS,
    endMs: Math.ceil(clock.now() / HOUR_MS) * HOUR_MS,
  }
}

const BY_MODEL_AND_KEY: UsageGroupings = ['model', 'key']

describe('a page of usage in groups', () => {
  test('is that of the charges of one instant, whatever is posted and summed while it is read', async () => {
    const random = randomOf(6)
    const organizationId = await usage.organization()
    const atMs = clock.now() - 3 * DAY_MS
    const charges = [await usage.post(organizationId, random, atMs)]
    const question = { organizationId, groupings: BY_MODEL_AND_KEY, window: lastDays(5), limit: 200 }
    await usage.sum(organizationId, question.window)
    const late: Charge[] = []
    inTheMiddle = async () => {
      late.push(await usage.post(organizationId, random, atMs))
      await usage.sum(organizationId, question.window)
    }
    await usage.check(charges, question)
    expect(late).toHaveLength(1)
    await usage.check([...charges, ...late], question)
  }, 60_000)

  test('is that of the charges after charges were posted while two processes summed them', async () => {
    const random = randomOf(7)
    const organizationId = await usage.organization()
    const window = lastDays(40)
    const charges: Charge[] = []
    for (let round = 0; round < 15; round += 1) {
      const before = sumOf(charges)
      const posts = Array.from({ length: 4 }, () =>
        usage.post(organizationId, random, clock.now() - random(40 * DAY_MS)),
      )
      const sums = [usage.sum(organizationId, window), usage.sum(organizationId, window)]
      const { total } = await usage.read({ organizationId, groupings: BY_MODEL_AND_KEY, window, limit: 200 })
      charges.push(...(await Promise.all(posts)))
      await Promise.all(sums)
      expect(total.requests).toBeGreaterThanOrEqual(before.requests)
      expect(total.costMicrocents).toBeLessThanOrEqual(sumOf(charges).costMicrocents)
      for (const groupings of [BY_MODEL_AND_KEY, ['day', 'key'], ['tier', 'month']] as const)
        await usage.check(charges, { organizationId, groupings, window, limit: 200 })
    }
  }, 60_000)

  test('is read from the longest blocks that hold, and of a day that goes on all but its last hours from sums', async () => {
    const random = randomOf(8)
    const organizationId = await usage.organization()
    const blockMs = 32 * DAY_MS
    const startMs = Math.ceil(clock.now() / blockMs) * blockMs
    const untilMs = startMs + blockMs + 7 * HOUR_MS
    await clock.turn(untilMs + HOUR_MS / 2 - clock.now())
    const charges = [await usage.post(organizationId, random, untilMs + 1)]
    for (let made = 0; made < 40; made += 1)
      charges.push(await usage.post(organizationId, random, startMs + random(untilMs - startMs)))
    const window = { startMs, endMs: untilMs + HOUR_MS }
    await usage.sum(organizationId, window)
    // Without these nothing can be read but the block of 32 days, the sums of the next day, and the hour behind them.
    const { database } = usage.books
    const hours = 'delete from usage_hours where organization_id = $1::uuid and hour < $2::timestamptz'
    await database.query(hours, [organizationId, toTimestamp(untilMs)])
    const sums =
      'delete from usage_sums where organization_id = $1::uuid and hours < 32 * 24 and starts_at < $2::timestamptz'
    await database.query(sums, [organizationId, toTimestamp(startMs + blockMs)])
    for (const groupings of [BY_MODEL_AND_KEY, ['member'], ['tier', 'modality']] as const)
      await usage.check(charges, { organizationId, groupings, window, limit: 200 })
  }, 60_000)

  test('of any size by hours or days and keys or members has each group once', async () => {
    const organizationId = await usage.organization()
    const window = { ...lastDays(10), endMs: Math.floor(clock.now() / DAY_MS) * DAY_MS }
    const charges: Charge[] = []
    for (let atMs = window.startMs; atMs < window.endMs; atMs += DAY_MS)
      for (const keyId of USAGE_KEYS)
        charges.push(await usage.books.post(organizationId, atMs + 5 * HOUR_MS, { model: 'svc/a', keyId }))
    await usage.sum(organizationId, window)
    for (const groupings of [
      ['hour', 'key'],
      ['key', 'hour'],
      ['day', 'member'],
      ['member', 'day'],
    ] as const)
      for (const limit of [1, 9, 10, 11, 40]) await usage.check(charges, { organizationId, groupings, window, limit })
  }, 60_000)

  test('is read by hours, and nothing is summed, while another process sums', async () => {
    const organizationId = await usage.organization()
    const charges = [await usage.post(organizationId, randomOf(9), clock.now() - 3 * DAY_MS)]
    const question = { organizationId, groupings: BY_MODEL_AND_KEY, window: lastDays(5), limit: 200 }
    const countBlocks = () =>
      usage.books.database.query('select 1 from usage_blocks where organization_id = $1::uuid', [organizationId])
    await usage.books.database.transaction(async (tx) => {
      expect(await lockUsageSums(tx, organizationId)).toBe(true)
      await usage.sum(organizationId, question.window)
      expect(await countBlocks()).toEqual([])
    })
    await usage.check(charges, question)
    await usage.sum(organizationId, question.window)
    expect(await countBlocks()).not.toEqual([])
    await usage.check(charges, question)
  }, 60_000)
})
