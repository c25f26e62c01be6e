/** Two renewals of one slot that are under way at once: the first one's connection broke, and the server has not noticed. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { FastClock, type House, openHouse } from '../../../../test/moneyHouse.ts'
import { until } from '../../../../test/until.ts'
import { systemClock } from '../../../infra/clock.ts'
import { openSession } from '../../../infra/postgres/session.ts'
import { foldSlot } from '../slots/foldSlot.ts'
import type { Want } from '../wants.ts'
import { renewShares } from './renew.ts'

const SLOT = 5
const WANT: Want = { admission: 1_000n, least: 1_000n, extension: 0n, giveBack: null }
const EVERYTHING: Want = { admission: 0n, least: 0n, extension: 0n, giveBack: 1n << 62n }

const clock = new FastClock(Date.UTC(2030, 0, 15, 12))

let house: House
beforeAll(async () => {
  house = await openHouse(clock)
})
afterAll(() => house.drop())

const renew = (organizationId: string, want = WANT) =>
  renewShares(house.database, SLOT, new Map([[organizationId, want]]), clock.now())

const sharesOf = (organizationId: string) =>
  house.database.query(
    'select slot, granted_microcents as granted from account_shares where organization_id = $1::uuid',
    [organizationId],
  )

/**
 * Begins a renewal, breaks its connection while it waits for the account, begins `next`, and lets both go on. Resolves when both have
 * ended.
 */
async function beside(organizationId: string, next: () => Promise<unknown>): Promise<void> {
  const session = await openSession(house.url, systemClock, { kind: 'broken', token: null })
  let second: Promise<unknown> = Promise.resolve()
  await house.database.transaction(async (tx) => {
    // Not in the transaction: there a backend that is new would not be seen.
    const waiting = async (statements: number) => {
      const words = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
      await until(async () => (await house.database.query(words)).length >= statements)
    }
    await tx.query('select 1 from accounts where organization_id = $1::uuid for update', [organizationId])
    const first = renewShares(session, SLOT, new Map([[organizationId, WANT]]), clock.now())
    first.catch(() => {})
    await waiting(1)
    await session.close()
    expect(await first.catch(() => 'broken')).toBe('broken')
    second = next()
    await waiting(2)
  })
  await second
  const ended = "select 1 from pg_stat_activity where application_name = 'tollgate broken'"
  await until(async () => (await house.database.query(ended)).length === 0)
}

test('a first renewal that is asked for again while the server still works on it leaves account and share in agreement', async () => {
  const organization = await house.organization(10_000n)
  let renewed: Awaited<ReturnType<typeof renew>> = []
  await beside(organization, async () => {
    renewed = await renew(organization)
  })
  expect(await house.imbalances()).toEqual([])
  // 2,500 of the first one, which the process never heard of, and a quarter of the rest.
  expect(renewed).toMatchObject([{ grantedMicrocents: 1_875n, grantedToOthersMicrocents: 2_500n }])
  expect(await sharesOf(organization)).toEqual([{ slot: SLOT, granted: 4_375n }])
  // The next one finds all of it.
  expect(await renew(organization, EVERYTHING)).toMatchObject([
    { grantedMicrocents: 0n, grantedToOthersMicrocents: 0n },
  ])
  expect(await house.imbalances()).toEqual([])
})

test('a fold beside a first renewal that it can not see leaves what that was granted to the next fold', async () => {
  const organization = await house.organization(10_000n)
  // It is of the slot by what it has spent alone.
  await house.database.query(
    'insert into unfolded_spend (organization_id, slot, minute, spent_microcents) values ($1::uuid, $2, $3::timestamptz, 0)',
    [organization, SLOT, new Date(clock.now())],
  )
  const fold = () => house.database.transaction((tx) => foldSlot(tx, SLOT, clock.now()))
  await beside(organization, fold)
  expect(await house.imbalances()).toEqual([])
  expect(await sharesOf(organization)).toEqual([{ slot: SLOT, granted: 2_500n }])
  await fold()
  expect(await house.imbalances()).toEqual([])
  expect(await sharesOf(organization)).toEqual([])
})
