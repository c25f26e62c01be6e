import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Books, impatient, openBooks } from '../../../test/books.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { SILENCE } from '../../../test/silence.ts'
import { type Disagreement, describe as describeDisagreement, disagreementToJson } from '../../lib/disagreement.ts'
import { DAY_MS, HOUR_MS, utcDay } from '../../lib/time.ts'
import { postCharges } from '../charges/post.ts'
import { planCheck } from '../plans/verify.ts'
import { verifyNextDay } from './verifyInBackground.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
const clock = new TurnedClock(NOON_MS)

let books: Books
let organization: string
beforeAll(async () => {
  books = await openBooks(clock)
  organization = await books.organization(10n ** 12n)
  for (let day = 0; day < 3; day += 1) {
    for (let hour = 0; hour < 3; hour += 1) await books.post(organization, NOON_MS - day * DAY_MS - hour * HOUR_MS)
  }
}, 60_000)
afterAll(() => books.drop())

/**
 * Returns the disagreements that the verification finds while `fault` is in the database; `mend` takes it out again.
 */
async function foundWith(fault: string, mend: string): Promise<Disagreement[]> {
  await books.database.query(fault)
  try {
    return await books.verify()
  } finally {
    await books.database.query(mend)
  }
}

const aCharge = `(select id from charges order by admitted_at, id limit 1)`

describe('the verification', () => {
  test('finds nothing in books that nobody has touched', async () => {
    expect(await books.verify()).toEqual([])
  })

  const faults: [string, string, string, Disagreement['kind'][]][] = [
    [
      'a balance that was raised',
      `update accounts set balance_microcents = balance_microcents + 1`,
      `update accounts set balance_microcents = balance_microcents - 1`,
      ['balance'],
    ],
    [
      'an entry that was changed',
      `update ledger_entries set amount_microcents = amount_microcents + 5`,
      `update ledger_entries set amount_microcents = amount_microcents - 5`,
      ['balance'],
    ],
    [
      'spent that was forgotten',
      `update unfolded_spend set spent_microcents = spent_microcents - 7`,
      `update unfolded_spend set spent_microcents = spent_microcents + 7`,
      ['balance', 'balance'],
    ],
    [
      'a share that nobody granted',
      `update accounts set shares_microcents = shares_microcents + 1`,
      `update accounts set shares_microcents = shares_microcents - 1`,
      ['granted'],
    ],
    [
      'a charge of another amount',
      `update charges set cost_microcents = cost_microcents + 1 where id = ${aCharge}`,
      `update charges set cost_microcents = cost_microcents - 1 where id = ${aCharge}`,
      ['statement', 'cost', 'rollup'],
    ],
    [
      'a charge of other tokens',
      `update charges set prompt_tokens = prompt_tokens + 90 where id = ${aCharge}`,
      `update charges set prompt_tokens = prompt_tokens - 90 where id = ${aCharge}`,
      ['cost', 'rollup'],
    ],
    [
      'a charge that is gone',
      `create temporary table gone as select * from charges where false; create table kept as select * from charges where id = ${aCharge}; delete from charges where id = ${aCharge}`,
      `insert into charges select * from kept; drop table kept`,
      ['statement', 'rollup'],
    ],
    [
      'a price that was changed',
      `update price_versions set price = jsonb_set(price, '{input_per_1m_tokens_microcents}', '123456788')`,
      `update price_versions set price = jsonb_set(price, '{input_per_1m_tokens_microcents}', '123456789')`,
      Array(9).fill('price'),
    ],
    [
      'a price that is gone',
      `create table kept as select * from price_versions; delete from price_versions`,
      `insert into price_versions select * from kept; drop table kept`,
      Array(9).fill('price'),
    ],
    [
      'a day that is not its hours',
      `update usage_days set requests = requests + 1 where day = '2030-01-14Z'`,
      `update usage_days set requests = requests - 1 where day = '2030-01-14Z'`,
      ['day'],
    ],
  ]
  test.each(faults)('finds %s', async (_name, fault, mend, kinds) => {
    const found = await foundWith(fault, mend)
    const expected = kinds[0] === 'balance' && kinds.length === 2 ? kinds.slice(0, 1) : kinds
    expect(found.map(({ kind }) => kind)).toEqual(expected)
    for (const each of found) {
      expect(describeDisagreement(each)).toContain(organization)
      expect(disagreementToJson(each)).toMatchObject({ kind: each.kind, organizationId: organization })
    }
    expect(await books.verify()).toEqual([])
  })

  test('finds a rollup that lost a request, with what both sides say', async () => {
    const found = await foundWith(
      `update usage_hours set requests = requests - 1 where hour = '2030-01-13 12:00Z'`,
      `update usage_hours set requests = requests + 1 where hour = '2030-01-13 12:00Z'`,
    )
    expect(found).toMatchObject([
      { kind: 'day', day: '2030-01-13' },
      { kind: 'rollup', hourMs: NOON_MS - 2 * DAY_MS, model: 'svc/test', charged: { 0: 1n }, rolledUp: { 0: 0n } },
    ])
  })

  test('pages go past instants that many charges share', async () => {
    const crowd = await books.organization(10n ** 12n)
    const one = await books.post(crowd, NOON_MS - 5 * DAY_MS)
    const many = Array.from({ length: 10_500 }, (_, index) => ({
      ...one,
      chargeId: `00000000-0000-7000-8000-${String(index).padStart(12, '0')}`,
    }))
    for (let at = 0; at < many.length; at += 500) {
      await postCharges(books.database, 0, many.slice(at, at + 500), clock.now())
    }
    expect(await books.verify()).toEqual([])
    const last = `'00000000-0000-7000-8000-000000010499'`
    const change = (by: string) => `update charges set cost_microcents = cost_microcents ${by} where id = ${last}`
    const found = await foundWith(change('+ 1'), change('- 1'))
    expect(found.map(({ kind }) => kind)).toEqual(['statement', 'cost', 'rollup'])
  }, 60_000)
})

describe('in the background', () => {
  const verifyNext = (at: TurnedClock, found: number[] = []) =>
    verifyNextDay({
      database: books.database,
      clock: impatient(at),
      log: SILENCE,
      checks: [planCheck],
      onDisagreements: (count) => found.push(count),
      isStopping: () => false,
    })

  test('each day that is over is gone through once, the latest first, and by one process', async () => {
    const days = [1, 2, 5].map((ago) => utcDay(NOON_MS - ago * DAY_MS))
    expect(await verifyNext(clock)).toBe(days[0] ?? '')
    const two = await Promise.all([verifyNext(clock), verifyNext(clock)])
    const rest = [...two, await verifyNext(clock)].filter((day) => day !== null)
    expect(rest.sort()).toEqual(days.slice(1).sort())
    expect(await verifyNext(clock)).toBeNull()
  })

  test('a day that disagrees is told of, and again a day later, until it agrees', async () => {
    const found: number[] = []
    const tomorrow = new TurnedClock(NOON_MS + DAY_MS)
    const change = (by: string) =>
      books.database.query(`update usage_days set requests = requests ${by} where day = '2030-01-15Z'`)
    await change('+ 1')
    expect(await verifyNext(tomorrow, found)).toBe('2030-01-15')
    expect(found).toEqual([1])
    expect(await verifyNext(tomorrow, found)).toBeNull()
    const later = new TurnedClock(NOON_MS + 2 * DAY_MS + HOUR_MS)
    expect(await verifyNext(later, found)).toBe('2030-01-15')
    expect(found).toEqual([1, 1])
    await change('- 1')
    const latest = new TurnedClock(NOON_MS + 3 * DAY_MS + 2 * HOUR_MS)
    expect(await verifyNext(latest, found)).toBe('2030-01-15')
    expect(await verifyNext(new TurnedClock(NOON_MS + 9 * DAY_MS), found)).toBeNull()
    expect(found).toEqual([1, 1])
  })
})
