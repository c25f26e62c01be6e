/** The partition of a day is made beside those who read and write `charges`, and is the one that PostgreSQL itself would make. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../../test/clock.ts'
import { type House, openHouse, openTill } from '../../../../test/moneyHouse.ts'
import { openTransaction } from '../../../../test/openTransaction.ts'
import { until } from '../../../../test/until.ts'
import { systemClock } from '../../../infra/clock.ts'
import { openClient } from '../../../infra/postgres/client.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { isDatabaseAway, isNothingDone } from '../../../infra/postgres/faults.ts'
import { DAY_MS } from '../../../lib/time.ts'
import { ensureChargePartition, preparePartitions } from './prepare.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
const clock = new TurnedClock(NOON_MS)
let house: House
/** A session of an operator. */
let other: Database
beforeAll(async () => {
  house = await openHouse(clock)
  other = openClient(house.url, { maxConnections: 1, clock: systemClock, applicationName: 'operator' })
})
afterAll(async () => {
  await other.close()
  await house.drop()
})

async function isThere(partition: string): Promise<boolean> {
  const [row] = await house.database.query<{ there: boolean }>('select to_regclass($1::text) is not null as there', [
    partition,
  ])
  return row?.there === true
}

async function isAnybodyWaiting(): Promise<boolean> {
  const rows = await house.database.query(
    `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return rows.length > 0
}

test('while a transaction that has read all charges is open, a day gets its partition and charges are posted', async () => {
  const organization = await house.organization(1_000n)
  const { writer, share } = openTill(house.database, 0, clock)
  const post = (admittedAtMs: number) =>
    writer.post(house.charge(organization, 1n, { admittedAtMs }), share(organization))
  await preparePartitions(house.database, NOON_MS)
  await post(NOON_MS)
  const reading = await openTransaction(other, (tx) => tx.query('select count(*) from charges'))
  try {
    let isMade = false
    const making = ensureChargePartition(house.database, NOON_MS + 5 * DAY_MS).then(() => {
      isMade = true
    })
    await until(async () => isMade || (await isAnybodyWaiting()))
    expect(isMade).toBe(true)
    await making
    // Of a day that is there, of the new one, and of one that has none yet.
    for (const days of [0, 5, -30]) await post(NOON_MS + days * DAY_MS)
  } finally {
    await reading.commit()
  }
  expect(await house.spent(organization)).toEqual({ microcents: 4n, charges: 4 })
  expect(await house.imbalances()).toEqual([])
})

test('a process that waits for a statement of an operator keeps no charge waiting, gives up, and leaves nothing behind', async () => {
  const organization = await house.organization(1_000n)
  const { writer, share } = openTill(house.database, 1, clock)
  await preparePartitions(house.database, NOON_MS)
  const dayMs = NOON_MS + 6 * DAY_MS
  // As `analyze charges` does.
  const locking = await openTransaction(other, (tx) =>
    tx.query('lock table only charges in share update exclusive mode'),
  )
  try {
    let failure: unknown = null
    let hasEnded = false
    const making = ensureChargePartition(house.database, dayMs)
      .catch((error: unknown) => {
        failure = error
      })
      .then(() => {
        hasEnded = true
      })
    await until(async () => hasEnded || (await isAnybodyWaiting()))
    await writer.post(house.charge(organization, 1n), share(organization))
    await making
    expect([isDatabaseAway(failure), isNothingDone(failure)]).toEqual([true, true])
    expect(await isThere('charges_20300121')).toBe(false)
    // One that is there is not waited for.
    await ensureChargePartition(house.database, NOON_MS)
  } finally {
    await locking.commit()
  }
  await ensureChargePartition(house.database, dayMs)
  await writer.post(house.charge(organization, 1n, { admittedAtMs: dayMs }), share(organization))
  expect(await house.spent(organization)).toEqual({ microcents: 2n, charges: 2 })
})

test('no later statement of the session has the bound on waits for locks', async () => {
  await ensureChargePartition(other, NOON_MS + 7 * DAY_MS)
  expect(await isThere('charges_20300122')).toBe(true)
  expect(await other.query<{ lock_timeout: string }>('show lock_timeout')).toEqual([{ lock_timeout: '0' }])
})

/**
 * Returns all that the catalogs say of a partition. Left out are its own name, and `connoinherit` of its primary key: that differs, and
 * counts for tables that others inherit from.
 */
async function described(partition: string): Promise<unknown> {
  const rows = await house.database.query<{ line: string }>(
    `with recursive parts as (
       select $1::text::regclass::oid as oid
       union all
       select indexrelid from pg_index where indrelid = $1::text::regclass
     )
     select format('relation %s %s %s %s %s %s %s %s %s', c.relname, c.relkind, c.relam, c.relpersistence, c.reloptions,
       c.relispartition, c.reltablespace, c.relreplident, c.relacl) as line from pg_class c join parts using (oid)
     union all
     select format('inherits %s %s of %s', inhseqno, i.inhrelid::regclass, i.inhparent::regclass)
     from pg_inherits i join parts on oid = inhrelid
     union all
     select format('constraint %s %s %s %s local %s inherited %s of %s, %s %s %s', conname, contype, pg_get_constraintdef(c.oid),
       convalidated, conislocal, coninhcount, (select conname from pg_constraint p where p.oid = c.conparentid), connoinherit and contype <> 'p',
       condeferrable, conkey)
     from pg_constraint c where conrelid = $1::text::regclass
     union all
     select format('index %s %s %s', pg_get_indexdef(indexrelid), indisprimary, indisvalid) from pg_index where indrelid = $1::text::regclass
     union all
     select format('column %s %s %s %s local %s inherited %s %s %s %s %s', attnum, attname, format_type(atttypid, atttypmod), attnotnull,
       attislocal, attinhcount, attstorage, attcompression, atthasdef, attoptions)
     from pg_attribute where attrelid = $1::text::regclass and attnum > 0
     union all
     select format('trigger %s', tgname) from pg_trigger where tgrelid = $1::text::regclass
     union all
     select format('owner %s', relowner::regrole) from pg_class where oid = $1::text::regclass
     order by 1`,
    [partition],
  )
  return rows.map(({ line }) => line.replaceAll(partition, 'charges_of_day'))
}

test('a partition is the one that "create table … partition of charges" makes, with nothing double', async () => {
  await ensureChargePartition(house.database, Date.UTC(2031, 1, 1))
  await house.database.query(
    `create table charges_20310202 partition of charges for values from ('2031-02-02T00:00:00Z') to ('2031-02-03T00:00:00Z')`,
  )
  const made = await described('charges_20310201')
  expect(made).toEqual(await described('charges_20310202'))
  expect((made as string[]).filter((line) => line.startsWith('index'))).toHaveLength(3)
  const bounds = await house.database.query<{ bound: string }>(
    `select pg_get_expr(relpartbound, oid) as bound from pg_class where relname = 'charges_20310201'`,
  )
  expect(bounds[0]?.bound).toMatch(/FROM \('2031-02-01 00:00:00\+00'\) TO \('2031-02-02 00:00:00\+00'\)/)
})
