import { afterAll, beforeAll, expect, test } from 'bun:test'
import { FastClock, type House, openHouse } from '../../../../test/moneyHouse.ts'
import { systemClock } from '../../../infra/clock.ts'
import { type Client, openClient } from '../../../infra/postgres/client.ts'
import type { Want } from '../wants.ts'
import { renewShares } from './renew.ts'

const SLOT = 1
const WANT: Want = { admission: 10n, least: 10n, extension: 0n, giveBack: null }
/** PostgreSQL compares the general plan with the first five. */
const PLANNED_MOST = 5

const clock = new FastClock(Date.UTC(2030, 0, 15, 12))
let house: House
let connection: Client
beforeAll(async () => {
  house = await openHouse(clock)
  connection = openClient(house.url, { maxConnections: 1, clock: systemClock })
})
afterAll(async () => {
  await connection?.close()
  await house?.drop()
})

test('a connection plans the renewals of one and of many organizations five times, and then no more', async () => {
  // The database of the tests has another one.
  await connection.query('set plan_cache_mode = auto')
  const organizations = await Promise.all(Array.from({ length: 30 }, () => house.organization(1_000_000n)))
  for (let renewals = 0; renewals < 10; renewals += 1) {
    const some = organizations.slice(0, renewals % 2 === 0 ? 1 : organizations.length)
    await renewShares(connection, SLOT, new Map(some.map((id) => [id, WANT])), clock.now())
  }
  const plans = await connection.query(
    `select custom_plans as each_time, generic_plans as kept from pg_prepared_statements where statement like '%with taken as%'
       and statement not like '%pg_prepared_statements%'`,
  )
  expect(plans).toEqual([{ each_time: BigInt(PLANNED_MOST), kept: 5n }])
})
