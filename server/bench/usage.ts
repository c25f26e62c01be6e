/** How long GET /usage takes over two million rollup rows. README.md explains it. */

import { DAY_MS, HOUR_MS, toTimestamp } from '../src/lib/time.ts'
import { openGateway, type TestKey } from '../test/gateway.ts'
import { startTestPostgres, TEST_POSTGRES_VARIABLE } from '../test/postgres.ts'
import { describeMachine } from './machine.ts'
import { atLeastOne, readOptions } from './options.ts'
import { Samples } from './statistics.ts'

const USAGE = 'usage: bun server/bench/usage.ts [--rows 2000000] [--organizations 1000] [--days 90] [--asks 2000]'

const { text } = readOptions(USAGE, { rows: '2000000', organizations: '1000', days: '90', asks: '2000' }, [])
const rowCount = atLeastOne('rows', text['rows'])
const organizationCount = atLeastOne('organizations', text['organizations'])
const dayCount = atLeastOne('days', text['days'])
const askCount = atLeastOne('asks', text['asks'])

const nowMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS

/** The share of the n-th largest organization: one over n, as sizes of customers go. */
const weights = Array.from({ length: organizationCount }, (_, index) => 1 / (index + 1))
const weightOfAll = weights.reduce((sum, weight) => sum + weight, 0)

const postgres = await startTestPostgres({ durable: true })
process.env[TEST_POSTGRES_VARIABLE] = postgres.url
const gateway = await openGateway()
try {
  console.log(describeMachine())
  const customers: TestKey[] = []
  for (let made = 0; made < organizationCount; made += 1) customers.push(await gateway.customer())
  await seed(customers)
  await measureAsks(customers)
} finally {
  await gateway.close()
  await postgres.stop()
}

/** Rollup rows, hour after hour as processes write them, so that one organization's are scattered over the table. */
async function seed(customers: readonly TestKey[]): Promise<void> {
  const startedAt = performance.now()
  const hours = dayCount * 24
  await gateway.database.query('create table bench_shares (id uuid, share double precision)')
  for (const [index, { organizationId }] of customers.entries()) {
    await gateway.database.query('insert into bench_shares values ($1::uuid, $2::float8)', [
      organizationId,
      (weights[index] ?? 0) / weightOfAll,
    ])
  }
  // As many rows an hour as make up the share; the fraction that is left decides by the hour.
  for (let hour = 0; hour < hours; hour += 1) {
    await gateway.database.query(
      `insert into usage_hours (organization_id, hour, model, tier, key_id, slot, requests, prompt_tokens,
         cached_prompt_tokens, completion_tokens, cost_microcents)
       select id, $1::timestamptz, 'svc/model-' || row % 8, 'serverless',
         ('00000000-0000-4000-8000-' || lpad((row / 8)::text, 12, '0'))::uuid, row % 4, 10, 1000, 0, 500, 123456
       from bench_shares,
         generate_series(1, floor(share * $2::float8 + (hashtext(id::text || $1) & 1023) / 1024.0)::integer) as row`,
      [toTimestamp(nowMs - (hours - hour) * HOUR_MS), rowCount / hours],
    )
  }
  await gateway.database.query('drop table bench_shares')
  await gateway.database.query(
    `insert into usage_days (organization_id, day, slot, requests, cost_microcents)
     select organization_id, date_bin('1 day', hour, 'epoch'), slot, sum(requests), sum(cost_microcents)
     from usage_hours group by 1, 2, 3`,
  )
  await gateway.database.query('vacuum analyze usage_hours')
  await gateway.database.query('vacuum analyze usage_days')
  const [rows] = await gateway.database.query<{ rows: bigint; largest: bigint }>(
    `select sum(rows)::bigint as rows, max(rows) as largest
     from (select count(*) as rows from usage_hours group by organization_id) by_organization`,
  )
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(0)
  console.log(`${rows?.rows} rollup rows, ${rows?.largest} of the largest organization, in ${seconds} s`)
}

/** Asks one at a time, through the whole gateway: half of the askers by size, half each as likely as any other. */
async function measureAsks(customers: readonly TestKey[]): Promise<void> {
  const monthStart = toTimestamp(Math.floor((nowMs - 35 * DAY_MS) / DAY_MS) * DAY_MS)
  const monthEnd = toTimestamp(Math.floor((nowMs - 5 * DAY_MS) / DAY_MS) * DAY_MS)
  const questions: readonly (readonly [string, string])[] = [
    ['a month by day', `start=${monthStart}&end=${monthEnd}&bucket=day`],
    ['no parameters (30 days up to now, by day)', ''],
    ['a month by hour, 200 a page', `start=${monthStart}&end=${monthEnd}&bucket=hour&limit=200`],
    ['everything by month', `start=2020-01-01T00:00:00Z&bucket=month`],
  ]
  for (const [name, query] of questions) {
    const bySize = new Samples()
    const evenly = new Samples()
    const largest = new Samples()
    const ask = async (customer: TestKey, samples: Samples) => {
      const startedAt = performance.now()
      const response = await gateway.get(customer, `/usage?${query}`)
      const body = await response.text()
      samples.add(performance.now() - startedAt)
      if (response.status !== 200) throw new Error(body)
    }
    for (let warm = 0; warm < 50; warm += 1) await ask(pick(customers, true), new Samples())
    for (let asked = 0; asked < askCount; asked += 1) {
      await ask(pick(customers, true), bySize)
      await ask(pick(customers, false), evenly)
      if (asked % 20 === 0) await ask(customers[0] ?? pick(customers, true), largest)
    }
    const told = (samples: Samples) => {
      const { p50, p99, max } = samples.percentiles()
      return `p50 ${p50.toFixed(1)} p99 ${p99.toFixed(1)} max ${max.toFixed(1)} ms`
    }
    console.log(`${name}: by size ${told(bySize)} | evenly ${told(evenly)} | the largest ${told(largest)}`)
  }
}

function pick(customers: readonly TestKey[], bySize: boolean): TestKey {
  let at = Math.random() * (bySize ? weightOfAll : organizationCount)
  for (const [index, customer] of customers.entries()) {
    at -= bySize ? (weights[index] ?? 0) : 1
    if (at < 0) return customer
  }
  throw new Error('there are no customers')
}
