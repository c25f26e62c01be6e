/** The budget of changes (K7): how many it lets through, when it comes back, and whom it lets wait. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import { Refused } from '../../lib/errors.ts'
import { DAY_MS, HOUR_MS, SECOND_MS } from '../../lib/time.ts'
import { CHANGES_AN_HOUR, countChange } from './budget.ts'
import { sweepAuditLog } from './sweep.ts'

const NOW_MS = Date.UTC(2031, 0, 1)
const CHANGE_MS = 12 * SECOND_MS

let fresh: FreshDatabase
let organizationId: string
beforeAll(async () => {
  fresh = await freshDatabase()
})
beforeEach(() => {
  organizationId = crypto.randomUUID()
})
afterAll(() => fresh.drop())

/** `counted`, or the code of the refusal with its seconds to wait. */
async function count(nowMs: number, more: { id?: string; within?: (tx: Transaction) => Promise<void> } = {}) {
  try {
    await fresh.database.transaction(async (tx) => {
      await countChange(tx, more.id ?? organizationId, nowMs)
      await more.within?.(tx)
    })
    return 'counted'
  } catch (error) {
    if (error instanceof Refused) return `${error.refusal.code} ${error.refusal.retryAfterSeconds}`
    throw error
  }
}

async function countMany(times: number, nowMs: number): Promise<number> {
  let counted = 0
  for (let time = 0; time < times; time += 1) if ((await count(nowMs)) === 'counted') counted += 1
  return counted
}

const rows = () =>
  fresh.database.query('select 1 from audit_budgets where organization_id = $1::uuid', [organizationId])

test('300 changes pass at once, then one more every twelve seconds, and 300 again after an hour', async () => {
  expect(CHANGES_AN_HOUR).toBe(300)
  expect(await countMany(301, NOW_MS)).toBe(300)
  expect(await count(NOW_MS)).toBe('rate_limit_exceeded 12')
  expect(await count(NOW_MS + CHANGE_MS - 1)).toBe('rate_limit_exceeded 1')
  expect(await count(NOW_MS + CHANGE_MS)).toBe('counted')
  expect(await count(NOW_MS + CHANGE_MS)).toBe('rate_limit_exceeded 12')
  expect(await countMany(6, NOW_MS + 6 * CHANGE_MS)).toBe(5)
  expect(await countMany(301, NOW_MS + 6 * CHANGE_MS + HOUR_MS)).toBe(300)
})

test('days of nothing save nothing up', async () => {
  expect(await countMany(1, NOW_MS)).toBe(1)
  expect(await countMany(301, NOW_MS + 9 * DAY_MS)).toBe(300)
})

test('a change that is rolled back does not count', async () => {
  expect(await countMany(299, NOW_MS)).toBe(299)
  const within = () => Promise.reject(new Error('rolled back'))
  await expect(count(NOW_MS, { within })).rejects.toThrow('rolled back')
  expect([await count(NOW_MS), await count(NOW_MS)]).toEqual(['counted', 'rate_limit_exceeded 12'])
})

test('a refused change waits for nobody, and no organization waits for another', async () => {
  expect(await countMany(300, NOW_MS)).toBe(300)
  const [one, another] = [crypto.randomUUID(), crypto.randomUUID()]
  const within = async () => {
    // One that locks a row of these waits for this transaction, which waits for it.
    expect(await count(NOW_MS, { id: another })).toBe('counted')
    await fresh.database.transaction(async (tx) => {
      await tx.query('select 1 from audit_budgets where organization_id = $1::uuid for update', [organizationId])
      expect(await count(NOW_MS)).toBe('rate_limit_exceeded 12')
    })
  }
  expect(await count(NOW_MS, { id: one, within })).toBe('counted')
})

test('changes under a clock that was a year ahead keep nobody out once it is right', async () => {
  expect(await countMany(2, NOW_MS + 365 * DAY_MS)).toBe(2)
  // As if it were used up now.
  expect([await count(NOW_MS), await count(NOW_MS)]).toEqual(['counted', 'rate_limit_exceeded 12'])
  expect(await count(NOW_MS + CHANGE_MS)).toBe('counted')
})

test('a process whose clock is two seconds behind refuses what another one does', async () => {
  expect(await countMany(300, NOW_MS)).toBe(300)
  expect(await count(NOW_MS - 2 * SECOND_MS)).toBe('rate_limit_exceeded 14')
})

test('a budget that is whole again leaves no row, and one that is not stays', async () => {
  expect(await countMany(300, NOW_MS)).toBe(300)
  const sweepAt = (nowMs: number) =>
    sweepAuditLog(
      { database: fresh.database, clock: { now: () => nowMs, monotonicMs: () => 0, after: () => () => {} } },
      () => false,
    )
  await sweepAt(NOW_MS + HOUR_MS - 1)
  expect(await rows()).toHaveLength(1)
  expect(await count(NOW_MS)).toBe('rate_limit_exceeded 12')
  await sweepAt(NOW_MS + HOUR_MS)
  expect(await rows()).toHaveLength(0)
})
