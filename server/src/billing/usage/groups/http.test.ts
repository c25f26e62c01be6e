import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../../test/acceptance/ask.ts'
import { TurnedClock } from '../../../../test/clock.ts'
import type { TestKey } from '../../../../test/gateway.ts'
import { fc } from '../../../../test/properties.ts'
import { systemRandom } from '../../../infra/random.ts'
import { uuidV7 } from '../../../lib/ids.ts'
import { DAY_MS, HOUR_MS, toTimestamp } from '../../../lib/time.ts'
import type { Charge } from '../../charges/charge.ts'
import { ensureChargePartition } from '../../charges/partitions/prepare.ts'
import { postCharges } from '../../charges/post.ts'
import { bucketStart } from '../bucket.ts'
import { USAGE_GROUPINGS, type UsageGrouping } from './group.ts'
import { createUsageSummer } from './sums/sumUsage.ts'

const random = systemRandom()
/** Days are over, whatever the clock says meanwhile. */
const NOW = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
const FIRST = Math.floor(NOW / DAY_MS) * DAY_MS - 40 * DAY_MS

interface Made {
  readonly atMs: number
  readonly model: string
  readonly tier: 'serverless' | 'economy'
  readonly key: number
  readonly microcents: bigint
}

interface Sums {
  readonly requests: number
  readonly prompt_tokens: number
  readonly cost_microcents: string
}
interface Page {
  readonly total: Sums & { readonly cost_cents: number }
  readonly data: readonly (Sums & Readonly<Record<string, unknown>>)[]
  readonly next_cursor: string | null
}

const MODELS = ['svc/sandbox', 'svc/gone']
/** Of the catalog, and of one that is in it no more, by its units. */
const MODALITIES: Readonly<Record<string, string>> = { 'svc/sandbox': 'chat', 'svc/gone': 'embedding' }

let gateway: AskedGateway
let customer: TestKey
let memberId: string
let keys: string[]
const made: Made[] = []

beforeAll(async () => {
  gateway = await openAskedGateway()
  customer = await gateway.customer()
  const other = await gateway.customer()
  memberId = await addMemberKey(customer)
  const generated = fc.sample(
    fc.record({
      atMs: fc.integer({ min: FIRST, max: NOW - 1 }),
      model: fc.constantFrom(...MODELS),
      tier: fc.constantFrom('serverless' as const, 'economy' as const),
      key: fc.integer({ min: 0, max: 2 }),
      microcents: fc.bigInt({ min: 0n, max: 3_000_000n }),
    }),
    { numRuns: 200, seed: 11 },
  )
  made.push(...generated)
  await post(customer.organizationId, generated, 0)
  await post(customer.organizationId, [], 1)
  await post(other.organizationId, generated, 1)
}, 60_000)
afterAll(() => gateway.close())

/** The customer's key, one of a member and one that no table has; returns the member. */
async function addMemberKey({ organizationId, id }: TestKey): Promise<string> {
  const [userId, member, keyId, unknown] = Array.from({ length: 4 }, () => crypto.randomUUID()) as [
    string,
    string,
    string,
    string,
  ]
  const { database } = gateway
  await database.query(
    "insert into users (id, name, email, created_at, updated_at) values ($1, 'M', 'm@example.org', now(), now())",
    [userId],
  )
  await database.query(
    "insert into members (id, organization_id, user_id, role, created_at) values ($1, $2, $3, 'member', now())",
    [member, organizationId, userId],
  )
  await database.query(
    `insert into api_keys (id, organization_id, hash, scopes, admin, created_at, member_id)
     values ($1::uuid, $2, sha256(convert_to($1::uuid::text, 'utf8')), 'read_only', false, now(), $3)`,
    [keyId, organizationId, member],
  )
  keys = [id, keyId, unknown]
  return member
}

async function post(organizationId: string, charges: readonly Made[], slot: number): Promise<void> {
  for (const dayMs of new Set(charges.map(({ atMs }) => bucketStart('day', atMs))))
    await ensureChargePartition(gateway.database, dayMs)
  if (charges.length > 0)
    await postCharges(
      gateway.database,
      slot,
      charges.map((each) => chargeOf(organizationId, each)),
      NOW,
    )
}

function chargeOf(organizationId: string, { atMs, model, tier, key, microcents }: Made): Charge {
  return {
    chargeId: uuidV7(atMs, random),
    admittedAtMs: atMs,
    organizationId,
    keyId: keys[key] ?? '',
    model,
    tier,
    priceHash: new Uint8Array(32),
    usage: { promptTokens: 3, cachedPromptTokens: 1, completionTokens: model === 'svc/gone' ? 0 : 2 },
    estimated: false,
    costMicrocents: microcents,
    target: 'sandbox/x',
    outcome: 'completed',
  }
}

async function ask(query: Readonly<Record<string, string>>, key = customer): Promise<Page> {
  const answer = await gateway.ask({ path: `/manage/v1/usage?${new URLSearchParams(query)}`, key })
  if (answer.status !== 200) throw new Error(answer.text)
  return answer.json as Page
}

async function askAll(query: Readonly<Record<string, string>>): Promise<{ total: Page['total']; data: Page['data'] }> {
  const data: Page['data'][number][] = []
  for (let page = await ask(query); ; page = await ask({ ...query, cursor: page.next_cursor ?? '' })) {
    data.push(...page.data)
    if (page.next_cursor === null) return { total: page.total, data }
    expect(page.data.length).toBeGreaterThan(0)
  }
}

function nameOf(grouping: UsageGrouping, charge: Made): string | null {
  switch (grouping) {
    case 'model':
      return charge.model
    case 'key':
      return keys[charge.key] ?? ''
    case 'member':
      return charge.key === 1 ? memberId : null
    case 'tier':
      return charge.tier
    case 'modality':
      return MODALITIES[charge.model] ?? ''
    default:
      return toTimestamp(bucketStart(grouping, charge.atMs))
  }
}

/** The groups that the charges themselves make, in the order of their names. */
function expected(groupings: readonly UsageGrouping[], startMs: number, endMs: number) {
  const sums = new Map<string, { requests: number; microcents: bigint }>()
  for (const charge of made.filter(({ atMs }) => atMs >= startMs && atMs < endMs)) {
    const names = JSON.stringify(groupings.map((grouping) => nameOf(grouping, charge) ?? ''))
    const { requests, microcents } = sums.get(names) ?? { requests: 0, microcents: 0n }
    sums.set(names, { requests: requests + 1, microcents: microcents + charge.microcents })
  }
  return [...sums]
    .map(([names, { requests, microcents }]) => [JSON.parse(names) as string[], requests, String(microcents)] as const)
    .sort(([a], [b]) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
}

const FIELDS: Readonly<Partial<Record<UsageGrouping, string>>> = {
  model: 'model',
  key: 'key_id',
  member: 'member_id',
  tier: 'tier',
  modality: 'modality',
}

function shown(groupings: readonly UsageGrouping[], data: Page['data']) {
  return data.map((group) => [
    groupings.map((grouping) => group[FIELDS[grouping] ?? 'period_start'] ?? ''),
    group.requests,
    group.cost_microcents,
  ])
}

const costOf = (startMs: number, endMs: number) =>
  made.reduce((sum, { atMs, microcents }) => (atMs >= startMs && atMs < endMs ? sum + microcents : sum), 0n)

async function check(groupings: readonly UsageGrouping[], startMs: number, endMs: number, limit: number) {
  const query = {
    group_by: groupings.join(','),
    start: toTimestamp(startMs),
    end: toTimestamp(endMs),
    limit: `${limit}`,
  }
  const { total, data } = await askAll(query)
  expect(shown(groupings, data)).toEqual(expected(groupings, startMs, endMs) as unknown as ReturnType<typeof shown>)
  expect(BigInt(total.cost_microcents)).toBe(costOf(startMs, endMs))
  expect(total.cost_cents).toBe(Number(costOf(startMs, endMs) / 1_000_000n))
}

const PAIRS: (readonly UsageGrouping[])[] = USAGE_GROUPINGS.flatMap((one, index) => [
  [one],
  ...USAGE_GROUPINGS.slice(index + 1)
    .filter(() => index < 5)
    .map((two) => [one, two] as const),
])

const sumAll = async () => {
  const summer = createUsageSummer({
    database: gateway.database,
    clock: { now: () => NOW, monotonicMs: () => 0, after: () => () => {} },
  })
  summer.noteAsked(customer.organizationId, { startMs: FIRST, endMs: NOW })
  await summer.run(() => false)
}

describe('GET /manage/v1/usage', () => {
  test('any one or two groupings of any window, on pages of any size, are the sums of its charges, before and after days are summed', async () => {
    const hour = fc.integer({ min: 0, max: 40 * 24 }).map((hours) => FIRST + hours * HOUR_MS)
    const explore = (numRuns: number) =>
      fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...PAIRS),
          hour,
          hour,
          fc.integer({ min: 1, max: 200 }),
          async (pair, a, b, limit) => {
            fc.pre(a !== b)
            const [startMs, endMs] = [Math.min(a, b), Math.max(a, b)]
            fc.pre(!pair.includes('hour') || endMs - startMs <= 31 * DAY_MS)
            await check(pair, startMs, endMs, limit)
          },
        ),
        { numRuns },
      )
    for (const pair of PAIRS) await check(pair, FIRST + 12 * DAY_MS + HOUR_MS, NOW, 200)
    await explore(25)
    await sumAll()
    for (const pair of PAIRS) await check(pair, FIRST + 12 * DAY_MS + HOUR_MS, NOW, 200)
    await explore(25)
  }, 60_000)

  test('a day that is summed is read from its sums, until a charge comes late', async () => {
    await sumAll()
    const dayMs = bucketStart('day', made[0]?.atMs ?? 0)
    const { database } = gateway
    const moved = await database.query(
      `update usage_hours set hour = hour - interval '100 days' where organization_id = $1 and hour >= $2 and hour < $3 returning 1`,
      [customer.organizationId, new Date(dayMs), new Date(dayMs + DAY_MS)],
    )
    expect(moved.length).toBeGreaterThan(0)
    await check(['model', 'key'], dayMs, dayMs + DAY_MS, 50)
    await database.query(
      `update usage_hours set hour = hour + interval '100 days' where organization_id = $1 and hour >= $2 and hour < $3`,
      [customer.organizationId, new Date(dayMs - 100 * DAY_MS), new Date(dayMs - 99 * DAY_MS)],
    )
    const late: Made = { atMs: dayMs + 5, model: 'svc/sandbox', tier: 'serverless', key: 0, microcents: 7n }
    made.push(late)
    await post(customer.organizationId, [late], 1)
    await check(['model', 'key'], dayMs, dayMs + DAY_MS, 50)
    await sumAll()
    await check(['model', 'key'], dayMs, dayMs + DAY_MS, 50)
  })

  test('its totals, with the entries of the ledger, are the balance to the micro-cent', async () => {
    const fresh = await gateway.customer({ cents: 500 })
    for (const words of ['one', 'two words', 'three more words'])
      await gateway.post(fresh, '/chat/completions', {
        model: 'svc/sandbox',
        messages: [{ role: 'user', content: words }],
      })
    const { total, data } = await ask({ group_by: 'model,key' }, fresh)
    const [books] = await gateway.database.query<{ spent: bigint }>(
      `select ((select sum(amount_microcents) from ledger_entries where organization_id = $1) - balance_microcents
         + (select coalesce(sum(spent_microcents), 0) from unfolded_spend where organization_id = $1))::bigint as spent
       from accounts where organization_id = $1`,
      [fresh.organizationId],
    )
    expect(BigInt(total.cost_microcents)).toBe(books?.spent ?? -1n)
    expect(data).toHaveLength(1)
    expect(data[0]).toMatchObject({ model: 'svc/sandbox', key_id: fresh.id, requests: 3 })
  })

  test('without parameters it is the last 30 days by model; an organization without usage has totals of 0', async () => {
    const page = await ask({}, await gateway.customer())
    expect(page).toMatchObject({
      total: { requests: 0, cost_microcents: '0', cost_cents: 0 },
      data: [],
      next_cursor: null,
    })
    expect((await ask({})).data.map(({ model }) => model)).toEqual(['svc/gone', 'svc/sandbox'])
  })

  test('without start and end all pages have the window of the first one, in the last hour of a day too', async () => {
    const halfPastMs = Date.UTC(2031, 4, 17, 23, 30)
    const late = await openAskedGateway({ clock: new TurnedClock(halfPastMs) })
    const key = await late.customer()
    const atMs = halfPastMs - 30 * DAY_MS
    await ensureChargePartition(late.database, atMs)
    const charges = MODELS.map((model) => ({ atMs, model, tier: 'serverless', key: 0, microcents: 5n }) as const)
    await postCharges(
      late.database,
      7,
      charges.map((each) => chargeOf(key.organizationId, each)),
      halfPastMs,
    )
    const page = async (cursor: string | null) => {
      const path = `/manage/v1/usage?limit=1${cursor === null ? '' : `&cursor=${cursor}`}`
      return (await late.ask({ path, key })).json as Page
    }
    const first = await page(null)
    const second = await page(first.next_cursor)
    const window = { start: '2031-04-17T00:00:00.000Z', end: '2031-05-18T00:00:00.000Z' }
    for (const each of [first, second]) expect(each).toMatchObject({ ...window, total: { cost_microcents: '10' } })
    expect([...first.data, ...second.data].map(({ model }) => model)).toEqual(['svc/gone', 'svc/sandbox'])
    expect(second.next_cursor).toBeNull()
    await late.close()
  })

  const cursorOf = (...parts: unknown[]) => Buffer.from(JSON.stringify(parts)).toString('base64url')
  test.each([
    ['a group that is none', { group_by: 'instance_id' }, 'group_by'],
    ['three groups', { group_by: 'model,key,tier' }, 'group_by'],
    ['one group twice', { group_by: 'key,key' }, 'group_by'],
    ['two stretches of time', { group_by: 'day,month' }, 'group_by'],
    ['no group', { group_by: '' }, 'group_by'],
    ['a start at its end', { start: '2026-01-01T00:00:00Z', end: '2026-01-01T00:00:00Z' }, 'start'],
    ['a window of over 400 days', { start: '2025-01-01T00:00:00Z', end: '2026-02-06T00:00:00Z' }, 'start'],
    ['over 31 days by hour', { group_by: 'hour', start: '2026-01-01T00:00:00Z', end: '2026-02-02T00:00:00Z' }, 'start'],
    ['a cursor without a start', { cursor: cursorOf(1, 'usage', 'model', HOUR_MS, 'a', '') }, 'cursor'],
    ['a cursor of another list', { cursor: cursorOf(1, 'charges', 0, 0, '') }, 'cursor'],
    [
      'a cursor of another group',
      { group_by: 'key', cursor: cursorOf(1, 'usage', 'model', 0, HOUR_MS, 'a', '') },
      'cursor',
    ],
    ['a cursor with a NUL', { cursor: cursorOf(1, 'usage', 'model', 0, HOUR_MS, '\0', '') }, 'cursor'],
  ])('refuses %s', async (_name, query, param) => {
    const answer = await gateway.ask({
      path: `/manage/v1/usage?${new URLSearchParams(query as Record<string, string>)}`,
      key: customer,
    })
    expect([answer.status, (answer.json as { code: string }).code]).toEqual([422, 'validation_failed'])
    expect((answer.json as { detail: string }).detail).toContain(`'${param}'`)
  })

  test("another organization's key sees its own usage alone, and needs the scope billing read", async () => {
    const narrow = await gateway.customer({ scopes: 'serverless:write' })
    expect((await gateway.ask({ path: '/manage/v1/usage', key: narrow })).status).toBe(403)
    expect((await ask({}, await gateway.customer())).data).toEqual([])
  })
})
