import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Books, openBooks } from '../../../../test/books.ts'
import { TurnedClock } from '../../../../test/clock.ts'
import { SILENCE } from '../../../../test/silence.ts'
import { DAY_MS } from '../../../lib/time.ts'
import { readBalance } from '../../admission/balance/balance.ts'
import { chargeDays } from '../days.ts'
import { dropOldDays } from './dropDays.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
const KEPT_DAYS = 7
const OLD_MS = NOON_MS - 9 * DAY_MS
const clock = new TurnedClock(NOON_MS)

let books: Books
let one: string
let other: string
beforeAll(async () => {
  books = await openBooks(clock)
  one = await books.organization(10n ** 12n)
  other = await books.organization(10n ** 12n)
}, 60_000)
afterAll(() => books.drop())

const drop = () => dropOldDays({ database: books.database, log: SILENCE }, KEPT_DAYS, clock.now())

async function entries(): Promise<{ source: string; amount: bigint }[]> {
  return await books.database.query<{ source: string; amount: bigint }>(
    `select source, amount_microcents as amount from ledger_entries where kind = 'charges' order by source`,
  )
}

/** Σ ledger entries − Σ charges, from those two tables alone. */
async function booked(organizationId: string): Promise<bigint> {
  const rows = await books.database.query<{ booked: bigint }>(
    `select ((select sum(amount_microcents) from ledger_entries where organization_id = $1::uuid)
       - (select coalesce(sum(cost_microcents), 0) from charges where organization_id = $1::uuid))::bigint as booked`,
    [organizationId],
  )
  return rows[0]?.booked ?? 0n
}

async function expectBooksAgree(): Promise<void> {
  for (const organizationId of [one, other]) {
    expect(await booked(organizationId)).toBe(await readBalance(books.database, organizationId))
  }
  expect(await books.imbalances()).toEqual([])
  expect(await books.verify()).toEqual([])
}

test('a dropped day becomes one entry for each organization, and nobody has a micro-cent more or less', async () => {
  const first = await books.post(one, OLD_MS)
  const second = await books.post(one, OLD_MS + 1)
  const third = await books.post(other, OLD_MS)
  const kept = await books.post(one, NOON_MS - KEPT_DAYS * DAY_MS)
  const before = await readBalance(books.database, one)

  expect(await drop()).toEqual(['2030-01-06'])
  expect(await entries()).toEqual(
    [
      { source: `charges:2030-01-06:${one}`, amount: -(first.costMicrocents + second.costMicrocents) },
      { source: `charges:2030-01-06:${other}`, amount: -third.costMicrocents },
    ].sort((a, b) => (a.source < b.source ? -1 : 1)),
  )
  expect(await books.spent(one)).toEqual({ microcents: kept.costMicrocents, charges: 1 })
  expect(await readBalance(books.database, one)).toBe(before)
  const rollups = await books.database.query<{ requests: bigint }>(
    `select sum(requests)::bigint as requests from usage_hours where organization_id = $1::uuid`,
    [one],
  )
  expect(rollups).toEqual([{ requests: 3n }])
  await expectBooksAgree()
  expect(await drop()).toEqual([])
})

test('a charge that comes after its day was dropped becomes an entry of its own', async () => {
  const late = await books.post(one, OLD_MS + 2)
  await expectBooksAgree()
  expect(await drop()).toEqual(['2030-01-06'])
  expect(await entries()).toContainEqual({ source: `charges:2030-01-06:${one}:2`, amount: -late.costMicrocents })
  expect((await books.spent(one)).charges).toBe(1)
  await expectBooksAgree()
})

test('an entry for a dropped day that was changed is found', async () => {
  const change = (by: string) =>
    books.database.query(
      `update ledger_entries set amount_microcents = amount_microcents ${by} where source = 'charges:2030-01-06:${other}'`,
    )
  await change('+ 1')
  expect(await books.verify()).toMatchObject([{ kind: 'dropped', organizationId: other, day: '2030-01-06' }])
  await change('- 1')
})

test('several processes at once drop each day once', async () => {
  const charge = await books.post(other, OLD_MS - DAY_MS)
  const dropped = await Promise.all([drop(), drop(), drop()])
  expect(dropped.flat()).toEqual(['2030-01-05'])
  expect(await entries()).toContainEqual({ source: `charges:2030-01-05:${other}`, amount: -charge.costMicrocents })
  await expectBooksAgree()
})

test('a day whose charges are not what its rollups say is kept', async () => {
  const charge = await books.post(one, OLD_MS - 2 * DAY_MS)
  const change = (by: string) =>
    books.database.query(`update charges set cost_microcents = cost_microcents ${by} where id = '${charge.chargeId}'`)
  await change('+ 1')
  expect(await drop()).toEqual([])
  await change('- 1')
  expect(await drop()).toEqual(['2030-01-04'])
})

test('a reader of charges delays the drop, and no writer', async () => {
  await books.post(one, OLD_MS - 3 * DAY_MS)
  await books.post(one, NOON_MS)
  await books.database.transaction(async (tx) => {
    await tx.query('select count(*) from charges')
    await expect(drop()).rejects.toThrow('lock')
    await books.post(one, NOON_MS)
  })
  expect(await drop()).toEqual(['2030-01-03'])
  await expectBooksAgree()
})

test('a day that can not be dropped now keeps no later one', async () => {
  await books.post(one, OLD_MS - 5 * DAY_MS)
  await books.post(one, OLD_MS - 4 * DAY_MS)
  await books.database.transaction(async (tx) => {
    await tx.query('select count(*) from charges_20300101')
    await expect(drop()).rejects.toThrow('lock')
  })
  expect(await chargeDays(books.database)).not.toContain('2030-01-02')
  expect(await drop()).toEqual(['2030-01-01'])
  await expectBooksAgree()
})

test('a day of more organizations than one statement enters becomes an entry for each', async () => {
  const charge = await books.post(one, OLD_MS - 6 * DAY_MS)
  const before = (await entries()).length
  await books.database.query(
    `insert into organizations (id, name, standing, created_at)
     select gen_random_uuid(), 'crowd ' || n, 'established', now() from generate_series(1, 10001) as n`,
  )
  const crowd = `(select id from organizations where name like 'crowd %')`
  await books.database.query(
    `insert into charges select (jsonb_populate_record(c, jsonb_build_object('id', gen_random_uuid(), 'organization_id', o.id))).*
     from charges c cross join ${crowd} as o where c.id = '${charge.chargeId}'`,
  )
  await books.database.query(
    `insert into usage_days select o.id, d.day, d.slot, d.requests, d.cost_microcents
     from usage_days d cross join ${crowd} as o where d.organization_id = '${one}' and d.day = '2029-12-31'`,
  )
  expect(await drop()).toEqual(['2029-12-31'])
  const after = await entries()
  expect(after.length - before).toBe(10_002)
  expect(after.filter(({ source }) => source.startsWith('charges:2029-12-31:')).map(({ amount }) => amount)).toEqual(
    Array.from({ length: 10_002 }, () => -charge.costMicrocents),
  )
})
