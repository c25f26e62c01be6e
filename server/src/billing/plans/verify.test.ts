import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Books, openBooks, PRICE } from '../../../test/books.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { SILENCE } from '../../../test/silence.ts'
import { describe as describeDisagreement, disagreementToJson } from '../../lib/disagreement.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, toTimestamp } from '../../lib/time.ts'
import { priceTokens } from '../charges/pricing.ts'
import { dropOldDays } from '../ledger/retention/dropDays.ts'
import { weightedTokens } from './weigh.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
const PERIOD_MS = NOON_MS - 10 * DAY_MS
const clock = new TurnedClock(NOON_MS)

let books: Books
let organization: string
beforeAll(async () => {
  books = await openBooks(clock)
  organization = await books.organization(10n ** 12n)
  await books.post(organization, NOON_MS)
  for (const atMs of [NOON_MS - 9 * DAY_MS, NOON_MS - HOUR_MS, NOON_MS, NOON_MS]) await postCovered(atMs)
}, 60_000)
afterAll(() => books.drop())

let posted = 0
function postCovered(atMs: number, of = organization, periodStartMs = PERIOD_MS) {
  posted += 1
  const usage = { promptTokens: 1_001 * posted, cachedPromptTokens: 100, completionTokens: 77 }
  return books.post(of, atMs, {
    usage,
    costMicrocents: 0n,
    cover: { periodStartMs, factorThousandths: 1_500 },
    metered: { ...weightedTokens(usage, 1_500), listMicrocents: priceTokens(PRICE, usage) },
  })
}

/**
 * Returns the disagreements that the verification finds while `fault` is in the database; `mend` takes it out again.
 */
async function foundWith(fault: string, mend: string) {
  await books.database.query(fault)
  try {
    return await books.verify()
  } finally {
    await books.database.query(mend)
  }
}

const aCharge = `(select id from charges where plan_period is not null order by admitted_at desc, id limit 1)`
const thisHour = `hour = '${toTimestamp(NOON_MS)}' and slot = 0`
const change = (table: string, column: string, where: string): [string, string] => [
  `update ${table} set ${column} = ${column} + 1 where ${where}`,
  `update ${table} set ${column} = ${column} - 1 where ${where}`,
]

test('finds nothing in meters that nobody has touched, and covered charges leave the balance as it was', async () => {
  expect(await books.verify()).toEqual([])
  expect(await books.imbalances()).toEqual([])
})

const faults: [string, [string, string], string[]][] = [
  [
    'a covered charge that costs something',
    change('charges', 'cost_microcents', `id = ${aCharge}`),
    ['statement', 'cover', 'rollup'],
  ],
  ['another factor', change('charges', 'plan_factor', `id = ${aCharge}`), ['cover']],
  ['other weighted tokens', change('charges', 'plan_input_tokens', `id = ${aCharge}`), ['cover', 'plan_hour']],
  ['another list price', change('charges', 'list_microcents', `id = ${aCharge}`), ['cover', 'plan_hour']],
  [
    'another period',
    [
      `update charges set plan_period = plan_period + interval '1 day' where id = ${aCharge}`,
      `update charges set plan_period = '${toTimestamp(PERIOD_MS)}' where plan_period is not null`,
    ],
    ['plan_hour', 'plan_hour'],
  ],
  ['an hour of the meter', change('plan_hours', 'output_tokens', thisHour), ['plan_period', 'plan_hour']],
  ['a request of an hour', change('plan_hours', 'requests', thisHour), ['plan_hour']],
  ['a meter of the period', change('plan_periods', 'list_microcents', 'slot = 0'), ['plan_period']],
  [
    'an hour that is gone',
    [
      `create table kept as select * from plan_hours where ${thisHour}; delete from plan_hours where ${thisHour}`,
      `insert into plan_hours select * from kept; drop table kept`,
    ],
    ['plan_period', 'plan_hour'],
  ],
]
test.each(faults)('finds %s', async (_name, [fault, mend], kinds) => {
  const found = await foundWith(fault, mend)
  expect(found.map(({ kind }) => String(kind))).toEqual(kinds)
  for (const each of found) {
    expect(describeDisagreement(each)).toContain(organization)
    expect(disagreementToJson(each)).toMatchObject({ kind: each.kind, organizationId: organization })
  }
  expect(await books.verify()).toEqual([])
})

test('finds nothing in the use of a grace, nor where its hour belongs to the next period too', async () => {
  const another = await books.organization(0n)
  const charges = [NOON_MS - DAY_MS, NOON_MS - 30 * MINUTE_MS]
  for (const [index, periodStartMs] of charges.entries()) {
    for (const atMs of [NOON_MS - 20 * MINUTE_MS, NOON_MS - 10 * MINUTE_MS]) {
      await postCovered(atMs + index, another, periodStartMs)
    }
  }
  const periods = await books.database.query(
    'select distinct period_start from plan_hours where organization_id = $1::uuid and hour = $2::timestamptz',
    [another, toTimestamp(NOON_MS - HOUR_MS)],
  )
  expect(periods).toHaveLength(2)
  expect(await books.verify()).toEqual([])
})

test('meters stay what they were when the charges of a day are dropped', async () => {
  const meters = () => books.database.query('select * from plan_hours order by hour, slot')
  const before = await meters()
  expect(await dropOldDays({ database: books.database, log: SILENCE }, 7, NOON_MS)).toEqual(['2030-01-06'])
  expect(await meters()).toEqual(before)
  expect(await books.verify()).toEqual([])
  expect(await books.imbalances()).toEqual([])
})
