import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { type Gateway, openGateway, type TestKey } from '../../../test/gateway.ts'
import { fc } from '../../../test/properties.ts'
import { systemRandom } from '../../infra/random.ts'
import { uuidV7 } from '../../lib/ids.ts'
import { type Clock, DAY_MS, HOUR_MS, toTimestamp, utcDay } from '../../lib/time.ts'
import type { Charge } from '../charges/charge.ts'
import { ensureChargePartition } from '../charges/partitions/prepare.ts'
import { postCharges } from '../charges/post.ts'
import { prepareSettling, settleVideo } from '../charges/settleVideo.ts'
import { BUCKETS, bucketStart } from './bucket.ts'

const NOW = Date.UTC(2026, 4, 20, 10, 30)
const FIRST = Date.UTC(2026, 1, 25)

interface Page {
  readonly data: readonly { readonly bucket_start: string; readonly cost_cents: number }[]
  readonly next_cursor: string | null
}

let gateway: Gateway
let customer: TestKey
/** Only the time of day moves: the deadlines of the gateway's connections, which run by the other clock, stand still. */
const timers = new TurnedClock(NOW)
let passedMs = 0
const clock: Clock = {
  now: () => NOW + passedMs,
  monotonicMs: () => timers.monotonicMs(),
  after: (delayMs, callback) => timers.after(delayMs, callback),
}
const random = systemRandom()
const charged: { readonly atMs: number; readonly microcents: bigint }[] = []

beforeAll(async () => {
  gateway = await openGateway({ clock })
  customer = await gateway.customer()
  const other = await gateway.customer()
  // Three months in bursts, with empty hours, days and weeks between them; two processes post.
  const generated = fc.sample(
    fc.tuple(fc.integer({ min: FIRST, max: NOW - 1 }), fc.bigInt({ min: 0n, max: 3_000_000n }), fc.boolean()),
    { numRuns: 40, seed: 7 },
  )
  const instants = generated.flatMap(([atMs, microcents, isFirst]) => [
    [atMs, microcents, isFirst ? 0 : 1] as const,
    [Math.min(atMs + 1_000, NOW - 1), microcents / 2n, 0] as const,
    [Math.min(atMs + HOUR_MS, NOW - 1), microcents + 1n, 1] as const,
  ])
  for (const [atMs, microcents] of instants) charged.push({ atMs, microcents })
  for (const slot of [0, 1]) {
    const posted = instants
      .filter((each) => each[2] === slot)
      .flatMap(([atMs, microcents]) => [chargeOf(customer, atMs, microcents), chargeOf(other, atMs, microcents)])
    await post(posted, slot)
  }
}, 60_000)
afterAll(() => gateway.close())

function charge(of: TestKey, admittedAtMs: number, costMicrocents: bigint): Promise<void> {
  return post([chargeOf(of, admittedAtMs, costMicrocents)], 0)
}

async function post(charges: readonly Charge[], slot: number): Promise<void> {
  for (const dayMs of new Set(charges.map(({ admittedAtMs }) => bucketStart('day', admittedAtMs)))) {
    await ensureChargePartition(gateway.database, dayMs)
  }
  await postCharges(gateway.database, slot, charges, NOW)
}

function chargeOf(of: TestKey, admittedAtMs: number, costMicrocents: bigint): Charge {
  return {
    chargeId: uuidV7(admittedAtMs, random),
    admittedAtMs,
    organizationId: of.organizationId,
    keyId: of.id,
    model: 'svc/sandbox',
    tier: 'serverless',
    priceHash: new Uint8Array(32),
    usage: { promptTokens: 1, cachedPromptTokens: 0, completionTokens: 1 },
    estimated: false,
    costMicrocents,
    target: 'sandbox/x',
    outcome: 'completed',
  }
}

async function ask(query: Readonly<Record<string, string>>, key = customer): Promise<Page> {
  const response = await gateway.get(key, `/usage?${new URLSearchParams(query)}`)
  const body = await response.json()
  if (response.status !== 200) throw new Error(JSON.stringify(body))
  return body as Page
}

async function askAll(query: Readonly<Record<string, string>>): Promise<Page['data']> {
  const data: Page['data'][number][] = []
  let page = await ask(query)
  for (;;) {
    data.push(...page.data)
    if (page.next_cursor === null) return data
    expect(page.data.length).toBeGreaterThan(0)
    page = await ask({ cursor: page.next_cursor, ...(query['limit'] === undefined ? {} : { limit: query['limit'] }) })
  }
}

/** Micro-cents charged before an instant, from the charges themselves. */
function totalBefore(atMs: number): bigint {
  return charged.reduce((sum, each) => (each.atMs < atMs ? sum + each.microcents : sum), 0n)
}

/** Computes the buckets of a window from the charges themselves. */
function expected(bucket: (typeof BUCKETS)[number], startMs: number, endMs: number): Page['data'] {
  const inside = charged.filter(({ atMs }) => atMs >= startMs && atMs < endMs)
  const starts = [...new Set(inside.map(({ atMs }) => bucketStart(bucket, atMs)))].sort((a, b) => a - b)
  let before = totalBefore(startMs)
  return starts.map((start, index) => {
    const after = totalBefore(Math.min(starts[index + 1] ?? endMs, endMs))
    const cents = Number(after / 1_000_000n - before / 1_000_000n)
    before = after
    return { bucket_start: toTimestamp(start), gpu_seconds: 0, cost_cents: cents, gpu_type: null, instance_id: null }
  })
}

describe('GET /usage', () => {
  test('any window in any bucket on pages of any size is what the charges say, and adds up to the cent', async () => {
    const instant = fc.oneof(
      fc.integer({ min: FIRST - DAY_MS, max: NOW + DAY_MS }),
      fc.integer({ min: 0, max: 85 * 24 }).map((hours) => FIRST + hours * HOUR_MS),
      fc.integer({ min: 0, max: 85 }).map((days) => FIRST + days * DAY_MS),
      fc.constantFrom(...charged.map(({ atMs }) => atMs)),
    )
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...BUCKETS),
        instant,
        instant,
        fc.integer({ min: 1, max: 60 }),
        async (bucket, one, other, limit) => {
          fc.pre(one !== other)
          const [startMs, endMs] = [Math.min(one, other), Math.max(one, other)]
          const window = { start: toTimestamp(startMs), end: toTimestamp(endMs) }
          const data = await askAll({ ...window, bucket, limit: `${limit}` })
          expect(data).toEqual(expected(bucket, startMs, endMs))
          const cents = data.reduce((sum, { cost_cents }) => sum + cost_cents, 0)
          const whole = totalBefore(endMs) / 1_000_000n - totalBefore(startMs) / 1_000_000n
          expect(cents).toBe(Number(whole))
        },
      ),
      { numRuns: 150 },
    )
  })

  test('without parameters: the last 30 days by day, up to now', async () => {
    const page = await ask({})
    expect(page).toEqual({ data: expected('day', NOW - 30 * DAY_MS, NOW), next_cursor: null } as Page)
  })

  test('pages stay right while charges arrive: no bucket twice, none left out, the window as it was', async () => {
    const fresh = await gateway.customer()
    const dayMs = Date.UTC(2026, 4, 1)
    for (let day = 0; day < 6; day += 1) await charge(fresh, dayMs + day * DAY_MS + 5, 1_000_000n)
    await charge(fresh, NOW - 1, 1_000_000n)
    const first = await ask({ start: toTimestamp(dayMs), bucket: 'day', limit: '3' }, fresh)
    expect(first.data.map(({ bucket_start }) => bucket_start.slice(0, 10))).toEqual([
      '2026-05-01',
      '2026-05-02',
      '2026-05-03',
    ])
    // Late ones before the cursor and after it, and one after the instant that the window ends at.
    await charge(fresh, dayMs + 6, 1_000_000n)
    await charge(fresh, dayMs + 4 * DAY_MS + 6, 1_000_000n)
    passedMs = HOUR_MS
    await charge(fresh, NOW + 1, 1_000_000n)
    const second = await ask({ cursor: first.next_cursor ?? '', limit: '3' }, fresh)
    expect(second.data.map(({ bucket_start, cost_cents }) => [bucket_start.slice(0, 10), cost_cents])).toEqual([
      ['2026-05-04', 1],
      ['2026-05-05', 2],
      ['2026-05-06', 1],
    ])
    const third = await ask({ cursor: second.next_cursor ?? '', limit: '3' }, fresh)
    expect(third.data.map(({ bucket_start, cost_cents }) => [bucket_start.slice(0, 10), cost_cents])).toEqual([
      ['2026-05-20', 1],
    ])
    expect(third.next_cursor).toBeNull()
    passedMs = 0
  })

  test('grouping makes one group, of what has neither instance nor GPU', async () => {
    const window = { start: toTimestamp(FIRST), end: toTimestamp(NOW), bucket: 'month' }
    const plain = await ask(window)
    expect(await ask({ ...window, group_by: 'gpu_type' })).toEqual(plain)
    expect(await ask({ ...window, group_by: 'instance_id' })).toEqual(plain)
  })

  test('a video counts to the hour, day, week and month of its creation, whenever it is completed, with its seconds', async () => {
    const fresh = await gateway.customer()
    const film = async (created: string, completed: string, seconds: number, cents: number) => {
      const { usage: _, estimated: __, outcome: ___, ...admission } = chargeOf(fresh, Date.parse(created), 0n)
      const video = { ...admission, model: 'svc/film', seconds, costMicrocents: BigInt(cents) * 1_000_000n }
      await prepareSettling(gateway.database, video.admittedAtMs)
      await gateway.database.transaction((tx) => settleVideo(tx, video, Date.parse(completed), 0n))
    }
    // The last minutes of a month, of a Sunday, and of an hour; each is completed behind them.
    await film('2026-04-30T23:50:00Z', '2026-05-01T00:20:00Z', 4, 30)
    await film('2026-05-03T23:59:59.999Z', '2026-05-04T00:01:00Z', 5, 37)
    await film('2026-05-04T09:59:00Z', '2026-05-04T10:05:00Z', 8, 59)
    await film('2026-05-04T09:10:00Z', '2026-05-04T11:00:00Z', 1, 8)
    await charge(fresh, Date.parse('2026-05-04T09:20:00Z'), 2_000_000n)
    const window = { start: '2026-04-01T00:00:00Z', end: '2026-05-10T00:00:00Z' }
    const shown = async (bucket: string, more: Readonly<Record<string, string>> = {}) => {
      const { data } = await ask({ ...window, bucket, ...more }, fresh)
      for (const each of data) expect(each).toMatchObject({ gpu_seconds: 0, gpu_type: null, instance_id: null })
      return data.map(({ bucket_start, cost_cents }) => [bucket_start.slice(0, 13), cost_cents])
    }
    const hours = [
      ['2026-04-30T23', 30],
      ['2026-05-03T23', 37],
      ['2026-05-04T09', 69],
    ]
    expect(await shown('hour')).toEqual(hours)
    expect(await shown('hour', { group_by: 'gpu_type' })).toEqual(hours)
    expect(await shown('day')).toEqual([
      ['2026-04-30T00', 30],
      ['2026-05-03T00', 37],
      ['2026-05-04T00', 69],
    ])
    expect(await shown('week')).toEqual([
      ['2026-04-27T00', 67],
      ['2026-05-04T00', 69],
    ])
    expect(await shown('month')).toEqual([
      ['2026-04-01T00', 30],
      ['2026-05-01T00', 106],
    ])
    // An edge between two creations within an hour.
    expect(await shown('hour', { start: '2026-05-04T09:15:00Z' })).toEqual([['2026-05-04T09', 61]])
    const seconds = await gateway.database.query<{ hour: Date; seconds: bigint }>(
      `select hour, sum(video_seconds)::int8 as seconds from usage_hours where organization_id = $1::uuid
       group by hour order by hour`,
      [fresh.organizationId],
    )
    expect(seconds.map(({ hour, seconds: sum }) => [toTimestamp(hour.getTime()).slice(0, 13), sum])).toEqual([
      ['2026-04-30T23', 4n],
      ['2026-05-03T23', 5n],
      ['2026-05-04T09', 9n],
    ])
  })

  test('another organization sees its own, whatever cursor it has', async () => {
    const page = await ask({ start: toTimestamp(FIRST), bucket: 'hour', limit: '1' })
    const stranger = await gateway.customer()
    expect(await ask({ cursor: page.next_cursor ?? '' }, stranger)).toEqual({ data: [], next_cursor: null })
  })

  test('of a dropped day windows that meet still add up: an edge within an hour counts as the beginning of that hour', async () => {
    const fresh = await gateway.customer()
    const atMs = Date.UTC(2025, 5, 1, 10, 30)
    await charge(fresh, atMs, 2_000_000n)
    await gateway.database.query(`drop table charges_${utcDay(atMs).replaceAll('-', '')}`)
    const day = { start: '2025-06-01T00:00:00Z', end: '2025-06-02T00:00:00Z', bucket: 'day' }
    const cents = async (more: Readonly<Record<string, string>>) =>
      (await ask({ ...day, ...more }, fresh)).data.map(({ cost_cents }) => cost_cents)
    expect(await cents({})).toEqual([2])
    expect(await cents({ end: '2025-06-01T10:45:00Z' })).toEqual([])
    expect(await cents({ start: '2025-06-01T10:45:00Z' })).toEqual([2])
    expect(await cents({ start: '2025-06-01T11:00:00Z' })).toEqual([])
  })

  const cursorOf = (...parts: unknown[]) => Buffer.from(JSON.stringify(parts)).toString('base64url')
  test.each([
    ['a bucket that is none', { bucket: 'year' }, 'bucket'],
    ['a group that is none', { group_by: 'model' }, 'group_by'],
    ['a start without a time', { start: '2026-01-01' }, 'start'],
    ['a start before 1970', { start: '1969-12-31T23:59:59Z' }, 'start'],
    ['an end past four digits', { end: '9999-12-31T23:59:59-01:00' }, 'end'],
    ['an end so early that its 30 days begin before 1970', { end: '1970-01-02T00:00:00Z' }, 'end'],
    ['a start at its end', { start: '2026-01-01T00:00:00Z', end: '2026-01-01T01:00:00+01:00' }, 'start'],
    ['a start after now', { start: '2026-06-01T00:00:00Z' }, 'start'],
    ['no limit', { limit: '0' }, 'limit'],
    ['an empty limit', { limit: '' }, 'limit'],
    ['a limit over 200', { limit: '201' }, 'limit'],
    ['a limit that is not whole', { limit: '1.5' }, 'limit'],
    ['an empty cursor', { cursor: '' }, 'cursor'],
    ['a cursor of something else', { cursor: cursorOf('nonsense') }, 'cursor'],
    ['a cursor that is too long', { cursor: 'a'.repeat(1_000) }, 'cursor'],
    ['a cursor within a bucket', { cursor: cursorOf(1, 'day', null, 0, DAY_MS, 5) }, 'cursor'],
    ['a cursor outside its window', { cursor: cursorOf(1, 'day', null, 0, DAY_MS, DAY_MS) }, 'cursor'],
    ['a cursor beyond all time', { cursor: cursorOf(1, 'day', null, 0, 1e300, DAY_MS) }, 'cursor'],
    ['a cursor with another bucket', { cursor: cursorOf(1, 'day', null, 0, 2 * DAY_MS, 0), bucket: 'week' }, 'cursor'],
    [
      'a cursor with another end',
      { cursor: cursorOf(1, 'day', null, 0, 2 * DAY_MS, 0), end: '1970-01-02T00:00:00Z' },
      'cursor',
    ],
  ])('refuses %s', async (_name, query, param) => {
    const response = await gateway.get(customer, `/usage?${new URLSearchParams(query as Record<string, string>)}`)
    const body = (await response.json()) as { readonly code: string; readonly detail: string }
    expect([response.status, body.code]).toEqual([422, 'validation_failed'])
    expect(body.detail).toContain(`'${param}'`)
  })

  test('refuses a parameter that is given twice, and one that it does not know', async () => {
    expect((await gateway.get(customer, '/usage?limit=1&limit=2')).status).toBe(422)
    expect((await gateway.get(customer, '/usage?granularity=day')).status).toBe(422)
  })

  test('needs the scope billing read', async () => {
    const key = await gateway.customer({ scopes: 'serverless:write' })
    expect((await gateway.get(key, '/usage')).status).toBe(403)
  })
})
