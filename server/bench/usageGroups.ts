/** How long GET /manage/v1/usage takes over two million rollup rows of one organization. README.md explains it. */

import { join, resolve } from 'node:path'
import { parseGroupings, type UsageGroupings, wholeHours } from '../src/billing/usage/groups/group.ts'
import { readUsageGroups } from '../src/billing/usage/groups/read.ts'
import { blocksToSum, summableUntil } from '../src/billing/usage/groups/sums/block.ts'
import { findUsageBlocks } from '../src/billing/usage/groups/sums/findBlocks.ts'
import { createUsageSummer } from '../src/billing/usage/groups/sums/sumUsage.ts'
import { systemClock } from '../src/infra/clock.ts'
import { DAY_MS, HOUR_MS, toTimestamp } from '../src/lib/time.ts'
import { openGateway, type TestKey } from '../test/gateway.ts'
import { startTestPostgres, TEST_POSTGRES_VARIABLE } from '../test/postgres.ts'
import { describeMachine } from './machine.ts'
import { atLeastOne, readOptions } from './options.ts'

const SHAPES = ['even', 'office', 'scattered'] as const
const USAGE = `usage: bun server/bench/usageGroups.ts [--shape ${SHAPES.join('|')}] [--rows 2000000] [--days 90] [--asks 200] [--before CHECKOUT]`
const PRESETS = { shape: 'even', rows: '2000000', days: '90', asks: '200', before: '' }

const { text } = readOptions(USAGE, PRESETS, [])
const rowCount = atLeastOne('rows', text['rows'])
const dayCount = atLeastOne('days', text['days'])
const askCount = atLeastOne('asks', text['asks'])
const beforePath = text['before'] ?? ''
const shape = SHAPES.find((each) => each === text['shape'])
if (shape === undefined) {
  console.error(USAGE)
  process.exit(2)
}

const MODELS = 8
const MEMBERS = 50
const SCATTERED_KEYS = 10_000
const nowHourMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
const hourCount = dayCount * 24
const allStartMs = nowHourMs - (hourCount - 1) * HOUR_MS
const rowsAnHour = Math.ceil(rowCount / hourCount)

/**
 * For each shape the rows of one hour as a query: model and key by their numbers. $2 is the instant, $3 the rows an hour. `even`: each key
 * uses each model in every hour. `office`: each key uses one model or two, for 8 hours of a day. `scattered`: any key uses any model, at
 * random.
 */
const ROWS: Readonly<Record<(typeof SHAPES)[number], string>> = {
  even: `select n % ${MODELS} as model, n / ${MODELS} as key from generate_series(0, $3::integer - 1) n`,
  office: `select (key + use * 3) % ${MODELS} as model, key
    from generate_series(0, $3::integer * 9 / 4 - 1) key, generate_series(0, 1) use
    where (use = 0 or key % 3 = 0) and (extract(hour from $2::timestamptz)::integer + key % 24) % 24 < 8`,
  scattered: `select distinct (hash / ${SCATTERED_KEYS}) % ${MODELS} as model, hash % ${SCATTERED_KEYS} as key
    from (select hashint8(n + extract(epoch from $2::timestamptz)::bigint * 7)::bigint & 2147483647 as hash
      from generate_series(1, $3::integer) n) h`,
}

const postgres = await startTestPostgres({ durable: true })
process.env[TEST_POSTGRES_VARIABLE] = postgres.url
const gateway = await openGateway()
const { database } = gateway
try {
  console.log(describeMachine())
  const customer = await gateway.customer({ scopes: 'billing:read' })
  await seedKeys(customer)
  await seedRows(customer)
  await measure(customer)
} finally {
  await gateway.close()
  await postgres.stop()
}

/** The id of a key by its number, as SQL. */
function keyId(key: string): string {
  return `('00000000-0000-4000-8000-' || lpad((${key})::text, 12, '0'))::uuid`
}

/** Keys of the organization: of three, two belong to a member. */
async function seedKeys({ organizationId }: TestKey): Promise<void> {
  await database.query(
    `insert into users (id, name, email, created_at, updated_at)
     select gen_random_uuid(), 'Person ' || n, 'person' || n || '@example.com', now(), now() from generate_series(1, ${MEMBERS}) n`,
  )
  await database.query(
    `insert into members (id, organization_id, user_id, role, created_at)
     select gen_random_uuid(), $1::uuid, id, 'member', now() from users`,
    [organizationId],
  )
  await database.query(
    `insert into api_keys (id, organization_id, hash, scopes, admin, created_at, member_id)
     select ${keyId('n')}, $1::uuid, sha256(convert_to('bench ' || n, 'utf8')), 'read_only', false, now(),
       case when n % 3 > 0 then (select array_agg(id) from members where organization_id = $1::uuid)[1 + n % ${MEMBERS}] end
     from generate_series(0, ${SCATTERED_KEYS} - 1) n`,
    [organizationId],
  )
}

/** All rows are of one organization, hour after hour as processes write them. */
async function seedRows({ organizationId }: TestKey): Promise<void> {
  const startedAt = performance.now()
  for (let hour = 0; hour < hourCount; hour += 1)
    await database.query(
      `insert into usage_hours (organization_id, hour, model, tier, key_id, slot, requests, prompt_tokens,
         cached_prompt_tokens, completion_tokens, cost_microcents)
       select $1::uuid, $2::timestamptz, 'svc/model-' || model, 'serverless', ${keyId('key')}, 0, 10, 1000, 0, 500, 123456 + key
       from (${ROWS[shape ?? 'even']}) made`,
      [organizationId, toTimestamp(allStartMs + hour * HOUR_MS), rowsAnHour],
    )
  await database.query(
    `insert into usage_days (organization_id, day, slot, requests, cost_microcents)
     select organization_id, date_trunc('day', hour, 'UTC'), slot, sum(requests), sum(cost_microcents)
     from usage_hours where organization_id = $1::uuid group by 1, 2, 3`,
    [organizationId],
  )
  await database.query('vacuum analyze')
  const [found] = await database.query<{ rows: bigint; groups: bigint }>(
    `select count(*) as rows, (select count(*) from (select distinct model, key_id from usage_hours) g) as groups from usage_hours`,
  )
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(0)
  console.log(
    `${shape}: ${found?.rows} rollup rows, ${found?.groups} pairs of model and key, ${dayCount} days; in ${seconds} s`,
  )
}

interface Page {
  readonly next_cursor: string | null
  readonly total: { readonly requests: number; readonly cost_microcents: string }
}

async function ask(query: string, headers: Readonly<Record<string, string>>): Promise<Page> {
  for (;;) {
    const response = await gateway.send(`/manage/v1/usage?${query}`, { headers })
    const body = await response.text()
    if (response.status === 200) return JSON.parse(body)
    // The rate limit of the caller is not what is measured.
    if (response.status !== 429) throw new Error(body)
    await Bun.sleep(1_000)
  }
}

/** Usage before and after its blocks are summed, and held against the rollups. */
async function measure({ key, organizationId }: TestKey): Promise<void> {
  const headers = { Authorization: `Bearer ${key}` }
  const unsummed: number[] = []
  await timed(unsummed, () => ask('group_by=model,key', headers))
  tell('30 days by model,key, the first question', unsummed)
  const all = { startMs: allStartMs, endMs: nowHourMs + HOUR_MS }
  await sumAll(organizationId, all)
  const before = beforePath === '' ? null : await openBefore(organizationId, all)
  await database.query('vacuum analyze')
  const since = `&start=${toTimestamp(allStartMs)}`
  for (const groupBy of ['model,key', 'key,model', 'member,model', 'modality,member', 'month,key', 'day,model'])
    for (const [name, start] of [
      ['30 days', ''],
      [`${dayCount} days`, since],
    ] as const)
      await measureQuestion(`${name} by ${groupBy}`, `group_by=${groupBy}${start}`, headers)
  if (before !== null)
    for (const groupBy of ['model,key', 'key,model'] as const)
      for (const startMs of [Math.floor(Date.now() / DAY_MS - 30) * DAY_MS, allStartMs])
        await compareWithBefore(organizationId, groupBy, startMs, before)
  await compareTotals(organizationId, `start=${toTimestamp(allStartMs)}`, headers)
}

interface Span {
  readonly startMs: number
  readonly endMs: number
}

/** The gateway's own task may be at it: so it goes on until nothing is left to sum. */
async function sumAll(organizationId: string, window: Span): Promise<void> {
  const startedAt = performance.now()
  const summer = createUsageSummer({ database, clock: systemClock })
  for (let left = 1; left > 0; ) {
    summer.noteAsked(organizationId, window)
    await summer.run(() => false)
    const blocks = await findUsageBlocks(database, organizationId, window)
    left = blocksToSum(blocks, summableUntil(Date.now()), 1).length
  }
  const sizes = await database.query<{ name: string; mb: number }>(
    `select relname as name, round(pg_total_relation_size(oid) / 1e6)::integer as mb from pg_class
     where relname in ('usage_hours', 'usage_sums') order by 1`,
  )
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1)
  console.log(`summed in ${seconds} s; ${sizes.map(({ name, mb }) => `${name} ${mb} MB`).join(', ')}`)
}

type ReadGroups = typeof readUsageGroups

/** The same function of a checkout from before blocks of hours, on the same database, with days that are summed. */
async function openBefore(organizationId: string, window: Span): Promise<ReadGroups> {
  const folder = join(resolve(beforePath), 'server/src/billing/usage/groups')
  const { createDaySummer } = await import(join(folder, 'sumDays.ts'))
  const summer = createDaySummer({ database, clock: systemClock })
  summer.noteAsked(organizationId, window)
  await summer.run(() => false)
  return (await import(join(folder, 'read.ts'))).readUsageGroups
}

/** Both read the same page by turns, so that whatever else the machine does meets both alike. */
async function compareWithBefore(organizationId: string, groupBy: string, startMs: number, before: ReadGroups) {
  const groupings = parseGroupings(groupBy) as UsageGroupings
  const window = wholeHours({ startMs, endMs: Date.now() })
  const question = { organizationId, groupings, window }
  const read = (how: ReadGroups) => how(database, question, { after: null, limit: 51 }, new Map())
  const millis: Record<'before' | 'after', number[]> = { before: [], after: [] }
  for (let asked = 0; asked < askCount; asked += 1) {
    const one = await timed(millis.before, () => read(before))
    const other = await timed(millis.after, () => read(readUsageGroups))
    if (!Bun.deepEquals(one, other)) throw new Error('the two versions answer differently')
  }
  const days = Math.round((window.endMs - window.startMs) / DAY_MS)
  for (const [name, all] of Object.entries(millis)) tell(`reading ${days} days by ${groupBy}, ${name}`, all)
}

async function timed<T>(millis: number[], work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  const result = await work()
  millis.push(performance.now() - startedAt)
  return result
}

/** Prints percentiles by nearest rank. */
function tell(name: string, millis: readonly number[]): void {
  const sorted = [...millis].sort((a, b) => a - b)
  const at = (share: number) => (sorted[Math.ceil(share * sorted.length) - 1] ?? Number.NaN).toFixed(1)
  console.log(`${name}: p50 ${at(0.5)} p95 ${at(0.95)} max ${at(1)} ms`)
}

/** Asks for page after page from the first on. */
async function measureQuestion(name: string, query: string, headers: Readonly<Record<string, string>>) {
  const millis: number[] = []
  let cursor: string | null = null
  for (let asked = 0; asked < askCount; asked += 1) {
    const behind: string = cursor === null ? '' : `&cursor=${cursor}`
    const page: Page = await timed(millis, () => ask(`${query}${behind}`, headers))
    cursor = page.next_cursor
  }
  tell(name, millis)
}

async function compareTotals(organizationId: string, query: string, headers: Readonly<Record<string, string>>) {
  const { total } = await ask(query, headers)
  const [rolledUp] = await database.query<{ requests: bigint; cost: bigint }>(
    `select sum(requests)::bigint as requests, sum(cost_microcents)::bigint as cost from usage_hours where organization_id = $1::uuid`,
    [organizationId],
  )
  const isEqual = BigInt(total.requests) === rolledUp?.requests && BigInt(total.cost_microcents) === rolledUp.cost
  console.log(
    `its total of ${dayCount} days ${isEqual ? 'is' : 'IS NOT'} that of the rollups: ${rolledUp?.cost} micro-cents`,
  )
  if (!isEqual) process.exitCode = 1
}
