/** The money of an organization that dead processes have, where a call is short of it. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../../test/clock.ts'
import { FastClock, type House, openHouse, openTill } from '../../../../test/moneyHouse.ts'
import { SILENCE } from '../../../../test/silence.ts'
import { until } from '../../../../test/until.ts'
import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import { LOCK_CLASS } from '../../../infra/postgres/locks.ts'
import { SECOND_MS } from '../../../lib/time.ts'
import { shareLock, takeLock } from '../../../processes/store.ts'
import { readBalance } from '../balance/balance.ts'
import { createReclaimer } from './reclaimer.ts'

const OWN_SLOT = 10
const DEAD_SLOT = 11
const clock = new FastClock(Date.UTC(2030, 0, 15, 12))

let house: House
beforeAll(async () => {
  house = await openHouse(clock)
})
afterAll(() => house.drop())

/** An organization with 1,000 micro-cents, of which a slot was granted 1,000 and has spent 40. */
async function grantedTo(slot: number): Promise<string> {
  const organization = await house.organization(1_000n)
  const till = openTill(house.database, slot, clock)
  await till.writer.renew(till.share(organization), 1_000n)
  await till.writer.post(house.charge(organization, 40n), till.share(organization))
  return organization
}

async function grantedOf(organizationId: string): Promise<bigint | undefined> {
  const words = 'select shares_microcents as granted from accounts where organization_id = $1::uuid'
  return (await house.database.query<{ granted: bigint }>(words, [organizationId]))[0]?.granted
}

function reclaimer(given: Partial<Parameters<typeof createReclaimer>[0]> = {}) {
  const isAbandoned = (tx: Transaction, slot: number) => shareLock(tx, LOCK_CLASS.slot, slot)
  return createReclaimer({
    database: house.database,
    slot: { number: OWN_SLOT, isAbandoned },
    clock,
    log: SILENCE,
    ...given,
  })
}

/** The database of the house, and what was asked of it and is answered. */
function countingDatabase() {
  const seen = { queries: 0, transactions: 0, lists: [] as unknown[] }
  const database: Database = {
    ...house.database,
    query: async (text, parameters) => {
      const rows = await house.database.query(text, parameters)
      seen.queries += 1
      if (text.includes('account_shares')) seen.lists.push(rows)
      return rows as never
    },
    transaction: async (work) => {
      const worked = await house.database.transaction(work)
      seen.transactions += 1
      return worked
    },
  }
  return { database, seen }
}

test('a call gets what a dead process has of its organization, also while somebody folds the whole slot', async () => {
  const organization = await grantedTo(DEAD_SLOT)
  const other = await grantedTo(DEAD_SLOT)
  await house.database.transaction(async (tx) => {
    expect(await takeLock(tx, LOCK_CLASS.slotFold, DEAD_SLOT)).toBe(true)
    expect(await shareLock(tx, LOCK_CLASS.slot, DEAD_SLOT)).toBe(true)
    reclaimer()(organization, 'idle')
    await until(async () => (await grantedOf(organization)) === 0n)
  })
  expect(await readBalance(house.database, organization)).toBe(960n)
  // Nobody has asked for that one.
  expect(await grantedOf(other)).toBe(1_000n)
  expect(await house.imbalances()).toEqual([])
})

test('the money of a living process stays its own, and its slot is looked at every 2 s at most', async () => {
  const organization = await grantedTo(OWN_SLOT + 2)
  const turned = new TurnedClock()
  const { database, seen } = countingDatabase()
  const slot = { number: OWN_SLOT, isAbandoned: async () => false }
  const reclaim = reclaimer({ database, clock: turned, slot })
  const reclaimOnce = async () => {
    const before = seen.queries
    reclaim(organization, 'idle')
    // A notification and the list of slots.
    await until(() => seen.queries === before + 2)
  }
  await reclaimOnce()
  await until(() => seen.transactions === 1)
  await reclaimOnce()
  await turned.turn(2 * SECOND_MS)
  await reclaimOnce()
  await until(() => seen.transactions > 1)
  expect([seen.transactions, await grantedOf(organization)]).toEqual([2, 1_000n])
})

test('what was granted to this process is not folded by its own reclaim', async () => {
  const organization = await grantedTo(OWN_SLOT)
  const { database, seen } = countingDatabase()
  reclaimer({ database })(organization, 'all')
  await until(() => seen.lists.length === 1)
  expect(seen.lists).toEqual([[]])
})
