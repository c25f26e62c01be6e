import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../test/acceptance/ask.ts'
import type { Answer } from '../../../test/acceptance/description.ts'
import { expectRefusal } from '../../../test/acceptance/refusals.ts'
import { guideProgram, recomputeBill } from '../../../test/billingGuide.ts'
import { SettableClock } from '../../../test/clock.ts'
import { makeKey, type TestKey } from '../../../test/customer.ts'
import { postChargeOf } from '../../../test/postedCharges.ts'
import { SILENCE } from '../../../test/silence.ts'
import { until } from '../../../test/until.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/time.ts'
import type { Charge } from '../charges/charge.ts'
import { dropOldDays } from '../ledger/retention/dropDays.ts'
import type { ChargePlace } from './charges/charge.ts'
import { type FoundCharges, findCharges } from './charges/store.ts'
import { closeDays } from './closing/closeDays.ts'
import { closeMonths } from './closing/closeMonths.ts'

const NOON_MS = Date.UTC(2031, 4, 15, 12)

const clock = new SettableClock(NOON_MS)
const MAY = 'start=2031-05-01T00:00:00Z&end=2031-06-01T00:00:00Z'

let gateway: AskedGateway
let one: TestKey
let second: TestKey
let other: TestKey
/** Of the first organization, in the order in which they were admitted. */
const charges: Charge[] = []

beforeAll(async () => {
  gateway = await openAskedGateway({ clock })
  one = await gateway.customer({ cents: 1_000 })
  second = await makeKey(gateway.database, one.organizationId, {}, clock)
  other = await gateway.customer({ cents: 7 })
  for (let count = 0; count < 60; count += 1) {
    const key = count % 3 === 0 ? second : one
    // Several are of one instant.
    const admittedAtMs = NOON_MS - 9 * DAY_MS + Math.floor(count / 4) * HOUR_MS
    const model = count % 20 === 0 ? 'svc/rare' : 'svc/test'
    charges.push(
      await postChargeOf(gateway.database, key, { admittedAtMs, model, costMicrocents: BigInt(1_000_001 + count) }),
    )
  }
  await postChargeOf(gateway.database, other, { admittedAtMs: NOON_MS - DAY_MS })
}, 60_000)
afterAll(() => gateway.close())

const ask = (path: string, key: TestKey = one): Promise<Answer> => gateway.ask({ path: `/manage/v1${path}`, key })

type Row = Readonly<Record<string, string | number | boolean>>
const rowsOf = ({ text }: Answer): Row[] => text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
const idsOf = (rows: readonly Row[]) => rows.flatMap(({ type, id }) => (type === 'charge' ? [String(id)] : []))
const sumOf = (rows: readonly Row[]) =>
  rows.reduce((sum, row) => sum + BigInt(String(row['amount_microcents'] ?? 0)), 0n)

interface Page {
  readonly data: readonly Row[]
  readonly next_cursor: string | null
}

async function pagesOf(query: string, key = one): Promise<Row[]> {
  const found: Row[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: Page = (await ask(`/charges?${query}${cursor === '' ? '' : `&cursor=${cursor}`}`, key)).json as Page
    found.push(...page.data)
    cursor = page.next_cursor
  }
  return found
}

describe('the list of charges', () => {
  test.each(['limit=7', 'limit=200', 'limit=1'])('gives each charge once, newest first: %s', async (query) => {
    const found = (await pagesOf(query)).map(({ id }) => id)
    expect(found.toSorted()).toEqual(charges.map(({ chargeId }) => chargeId).sort())
    const instants = (await pagesOf(query)).map(({ admitted_at }) => String(admitted_at))
    expect(instants).toEqual(instants.toSorted().reverse())
  })

  test('is of one key, one model or a window of time', async () => {
    const count = async (query: string, key = one) => (await pagesOf(query, key)).length
    expect(await count(`key_id=${second.id}`)).toBe(20)
    expect(await count('model=svc/rare')).toBe(3)
    expect(await count(`key_id=${second.id}&model=svc/rare&limit=1`)).toBe(1)
    const startMs = NOON_MS - 9 * DAY_MS
    const [start, end] = [startMs, startMs + 2 * HOUR_MS].map((atMs) => new Date(atMs).toISOString())
    expect(await count(`start=${start}&end=${end}`)).toBe(8)
    expect(await count('end=2031-05-01T00:00:00Z')).toBe(0)
  })

  test("another organization's charges and keys are as if they were not there", async () => {
    expect((await pagesOf('', other)).length).toBe(1)
    expect(await pagesOf(`key_id=${one.id}`, other)).toEqual([])
    const [cursor] = [((await ask('/charges?limit=1')).json as Page).next_cursor]
    const shown = (await ask(`/charges?cursor=${cursor}`, other)).json as Page
    expect(shown.data.map(({ key_id }) => key_id)).not.toContain(one.id)
  })

  test('looks at a bounded number of charges a page, and misses none', async () => {
    for (const lookedAtMost of [1, 2, 3, 7, 20, 60, 100]) {
      const found: string[] = []
      const question = { organizationId: one.organizationId, startMs: 0, endMs: NOON_MS, keyId: second.id, model: null }
      for (let after: ChargePlace | null = null, page = 0; page === 0 || after !== null; page += 1) {
        const { charges, stoppedAt }: FoundCharges = await findCharges(
          gateway.database,
          { ...question, after },
          3,
          lookedAtMost,
        )
        found.push(...charges.map(({ id }) => id))
        after = charges.length === 3 ? (charges[2] ?? null) : stoppedAt
      }
      expect(found.toSorted()).toEqual(
        charges.flatMap((each) => (each.keyId === second.id ? [each.chargeId] : [])).sort(),
      )
    }
  })

  test.each([
    ['cursor=abc', /'cursor' is not a cursor/],
    ['limit=0', /'limit'/],
    ['key_id=k1', /'key_id': must be a UUID/],
    ['start=2031-05-02T00:00:00Z&end=2031-05-01T00:00:00Z', /'start' must be earlier/],
    ['start=yesterday', /'start': must be a date and time/],
    ['page=2', /page/],
    ['model=%00', /'model': must be printable ASCII/],
  ])('%s is refused', async (query, says) => {
    expectRefusal(await ask(`/charges?${query}`), 'A', { status: 422, code: 'validation_failed', says })
  })
})

/** Begins an export, which is read as far as the test reads it. */
const openExport = (key: TestKey, signal?: AbortSignal) =>
  gateway.app.handle(
    new Request(`http://gateway.test/manage/v1/charges/export?${MAY}`, {
      headers: { Authorization: `Bearer ${key.key}` },
      ...(signal === undefined ? {} : { signal }),
    }),
    { address: '127.0.0.1', setIdleTimeout: () => {} },
  )

describe('an export', () => {
  test('has each charge and each entry once, and says that it is whole', async () => {
    const rows = rowsOf(await ask(`/charges/export?${MAY}`))
    expect(rows.map(({ type }) => type)).toEqual(['export', 'credit', ...charges.map(() => 'charge'), 'end'])
    expect(idsOf(rows).toSorted()).toEqual(charges.map(({ chargeId }) => chargeId).sort())
    expect(sumOf(rows)).toBe(1_000n * 1_000_000n - charges.reduce((sum, each) => sum + each.costMicrocents, 0n))
  })

  test('is the same as CSV', async () => {
    const rows = rowsOf(await ask(`/charges/export?${MAY}`))
    const [head = '', ...lines] = (await ask(`/charges/export?${MAY}&format=csv`)).text.trimEnd().split('\r\n')
    const columns = head.split(',')
    expect(lines.map((line) => line.split(',').length)).toEqual(rows.map(() => columns.length))
    const read = lines.map((line) => line.split(',')).map((fields) => columns.map((name, at) => [name, fields[at]]))
    expect(read.map((fields) => Object.fromEntries(fields.filter(([, field]) => field !== '')))).toEqual(
      rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, String(value)]))),
    )
  })

  test('of days goes on behind any row, and misses and repeats nothing', async () => {
    const rows = rowsOf(await ask('/charges/export?start=2031-05-01&end=2031-06-01'))
    const [first] = rows
    for (const at of [1, 2, 3, 17, rows.length - 2]) {
      const rest = rowsOf(await ask(`/charges/export?${MAY}&after=${rows[at]?.['id']}&as_of=${first?.['as_of']}`))
      expect(rest).toEqual(rows.slice(at + 1))
    }
  })

  test("begins at no row of another organization, and shows none of another's", async () => {
    const [first, , row] = rowsOf(await ask(`/charges/export?${MAY}`))
    const path = `/charges/export?${MAY}&after=${row?.['id']}&as_of=${first?.['as_of']}`
    const says = /'after' is no row of this export any more/
    expectRefusal(await ask(path, other), 'A', { status: 422, code: 'validation_failed', says })
    expect(idsOf(rowsOf(await ask(`/charges/export?${MAY}`, other))).length).toBe(1)
  })

  test('is not resumed from a row that lies outside of its window, or was posted after it began', async () => {
    const rows = rowsOf(await ask(`/charges/export?${MAY}`))
    const asOf = String(rows[0]?.['as_of'])
    const [entry, charge] = [rows[1], rows[17]]
    expect([entry?.['type'], charge?.['type']]).toEqual(['credit', 'charge'])
    const windows = [
      'start=2031-04-01T00:00:00Z&end=2031-05-01T00:00:00Z',
      'start=2031-05-16T00:00:00Z&end=2031-06-01T00:00:00Z',
    ]
    for (const row of [entry, charge]) {
      for (const window of windows) {
        const path = `/charges/export?${window}&after=${row?.['id']}&as_of=${asOf}`
        const says = /'after' is a row from outside of start and end/
        expectRefusal(await ask(path), 'A', { status: 422, code: 'validation_failed', says })
      }
      const early = new Date(Date.parse(String(row?.['posted_at'])) - 1).toISOString()
      const path = `/charges/export?${MAY}&after=${row?.['id']}&as_of=${early}`
      expectRefusal(await ask(path), 'A', {
        status: 422,
        code: 'validation_failed',
        says: /'after' is a row that was posted after as_of/,
      })
    }
  })

  test.each([
    ['', /'start'/],
    ['start=2031-05-01T00:00:00Z', /'end'/],
    ['start=2031-05-01T01:00:00Z&end=2031-06-01T00:00:00Z', /'start': must be a UTC day, such as 2031-05-01/],
    ['start=2031-06-01T00:00:00Z&end=2031-06-01T00:00:00Z', /'start' must be earlier than end/],
    [`${MAY}&format=xml`, /'format': must be one of jsonl, csv/],
    [`${MAY}&after=01900000-0000-7000-8000-000000000000`, /'as_of' must be/],
    [`${MAY}&as_of=2031-05-01T00:00:00Z`, /'as_of' is only for an export that is resumed/],
    [`${MAY}&after=01900000-0000-7000-8000-000000000000&as_of=2031-05-15T00:00:00Z`, /'after' is no row/],
  ])('with "%s" is refused', async (query, says) => {
    expectRefusal(await ask(`/charges/export?${query}`), 'A', { status: 422, code: 'validation_failed', says })
  })

  test('is one of two of its key and of four of its organization', async () => {
    const third = await makeKey(gateway.database, one.organizationId, {}, clock)
    const opened = [await openExport(one), await openExport(one)]
    const tooMany = {
      status: 429,
      code: 'rate_limited',
      retryAfter: 5,
      says: /At most 2 exports may be open at once for a key, and 4/,
    }
    expectRefusal(await ask(`/charges/export?${MAY}`), 'A', tooMany)
    opened.push(await openExport(second), await openExport(second))
    expectRefusal(await ask(`/charges/export?${MAY}`, third), 'A', tooMany)
    expect((await ask(`/charges/export?${MAY}`, other)).status).toBe(200)
    for (const { status, body } of opened) {
      expect(status).toBe(200)
      await body?.cancel()
    }
    await clock.turn(0)
    expect((await ask(`/charges/export?${MAY}`)).status).toBe(200)
    const head = await gateway.send(`/manage/v1/charges/export?${MAY}`, {
      method: 'HEAD',
      headers: { Authorization: `Bearer ${one.key}` },
    })
    expect([head.status, await head.text()]).toEqual([200, ''])
    for (let again = 0; again < 3; again += 1) expect((await ask(`/charges/export?${MAY}`)).status).toBe(200)
  })

  test('ends when its client reads nothing for a minute, and frees its place', async () => {
    for (let again = 0; again < 3; again += 1) {
      const reader = (await openExport(one)).body?.getReader()
      await reader?.read()
      await clock.turn(MINUTE_MS - 1)
      await reader?.read()
      await clock.turn(MINUTE_MS)
      await expect(reader?.read()).rejects.toThrow('the client stopped reading')
    }
    expect((await ask(`/charges/export?${MAY}`)).status).toBe(200)
  })

  test('ends with its client', async () => {
    const gone = new AbortController()
    const opened = [await openExport(one, gone.signal), await openExport(one, gone.signal)]
    await Promise.all(opened.map(({ body }) => body?.getReader().read()))
    gone.abort()
    await clock.turn(0)
    expect((await ask(`/charges/export?${MAY}`)).status).toBe(200)
  })

  test('ends with its key, and is not whole then', async () => {
    const brief = await makeKey(gateway.database, one.organizationId, { expiresAtMs: clock.now() + HOUR_MS }, clock)
    const reader = (await openExport(brief)).body?.getReader()
    await reader?.read()
    await clock.turn(MINUTE_MS - 1)
    const text = new TextDecoder().decode((await reader?.read())?.value)
    expect(text).toContain('credit')
    await gateway.database.query('update api_keys set expires_at = $1::timestamptz where id = $2::uuid', [
      new Date(clock.now()).toISOString(),
      brief.id,
    ])
    await clock.turn(20_000)
    await expect(reader?.read()).rejects.toThrow('its key may not be used any more')
  })
})

describe('a statement', () => {
  test.each(['2031-13', '2031-5', 'may', '2031-06', '1969-12', '2031-05-01'])('%s is not there', async (month) => {
    expectRefusal(await ask(`/statements/${month}`), 'A', { status: 404, code: 'not_found', says: /no such statement/ })
  })

  test('that is open says how things stand, and one before everything is empty', async () => {
    const total = String(charges.reduce((sum, each) => sum + each.costMicrocents, 0n))
    expect((await ask('/statements/2031-05')).json).toMatchObject({
      state: 'open',
      opening_balance_microcents: '0',
      credits: [{ kind: 'credit', source: 'test', entries: 1, amount_microcents: '1000000000' }],
      charges: [
        { model: 'svc/rare', tier: 'serverless', charges: 3 },
        { model: 'svc/test', tier: 'serverless', charges: 57 },
      ],
      charges_microcents: total,
      closing_balance_microcents: String(1_000_000_000n - BigInt(total)),
    })
    expect((await ask('/statements/2031-04')).json).toMatchObject({
      state: 'closed',
      as_of: '2031-05-01T01:00:00.000Z',
      closing_balance_microcents: '0',
    })
  })

  test('is closed an hour after the end of its month, before the background has stored it', async () => {
    const { database } = gateway
    const third = await gateway.customer({ cents: 3 })
    const monthly = () => ask('/statements/2031-05', third)
    const wasMs = clock.now()
    clock.set(Date.UTC(2031, 5, 1, 0, 59))
    expect((await monthly()).json).toMatchObject({ state: 'open', as_of: '2031-06-01T00:59:00.000Z' })
    clock.set(Date.UTC(2031, 5, 1, 1, 1))
    const closed = (await monthly()).json
    expect(closed).toMatchObject({ state: 'closed', as_of: '2031-06-01T01:00:00.000Z' })
    expect(closed).toMatchObject({ closing_balance_microcents: '3000000' })
    clock.set(wasMs)
    expect(await database.query('select 1 from closed_months')).toEqual([])
  })
})

/** Runs the program of docs/billing.md against the gateway, for one month after the other. */
async function recompute(months: readonly string[], { key }: TestKey): Promise<string[]> {
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => gateway.app.handle(request, { address: '127.0.0.1', setIdleTimeout: () => {} }),
  })
  try {
    const said: string[] = []
    for (const month of months) {
      const { code, stdout, stderr } = await recomputeBill(`http://127.0.0.1:${server.port}`, key, month)
      said.push(code === 0 ? stdout.trim() : stderr.trim())
    }
    return said
  } finally {
    await server.stop(true)
  }
}

test('the program of the guide has twenty lines at most', async () => {
  const lines = (await guideProgram()).split('\n').filter((line) => line.trim() !== '')
  expect(lines.length).toBeGreaterThan(5)
  expect(lines.length).toBeLessThanOrEqual(20)
})

test('the program of the guide recomputes closed months, with late charges and dropped days, and finds a changed charge', async () => {
  const { database } = gateway
  const may = charges.reduce((sum, each) => sum + each.costMicrocents, 0n)
  clock.set(Date.UTC(2031, 5, 2))
  // Posted in June, of May: on a day of May that is dropped later, and on one that stays.
  const late = { postedAtMs: clock.now(), costMicrocents: 77n, model: 'svc/late' }
  for (const admittedAtMs of [NOON_MS - 9 * DAY_MS, NOON_MS + DAY_MS]) {
    await postChargeOf(database, one, { admittedAtMs, ...late })
  }
  const covered = { model: 'svc/covered', costMicrocents: 0n }
  await postChargeOf(database, one, { admittedAtMs: clock.now(), ...covered })
  clock.set(Date.UTC(2031, 6, 1, 2))
  const closed = () => database.query('select month::text from closed_months order by month')
  // Where the gateway is at it too, one of them leaves off.
  const close = async () => [await closeDays(database, clock.now(), 100), await closeMonths(database, clock.now())]
  await until(async () => (await close()) && (await closed()).length === 2)
  expect(await closed()).toEqual([{ month: '2031-05-01' }, { month: '2031-06-01' }])
  const before = await Promise.all(['2031-05', '2031-06'].map((month) => ask(`/statements/${month}`)))
  const begun = rowsOf(await ask(`/charges/export?${MAY}`))
  const underWay = (await openExport(one)).body?.getReader()
  for (let piece = 0; piece < 2; piece += 1) await underWay?.read()
  expect(await dropOldDays({ database, log: SILENCE }, 50, clock.now())).toEqual(['2031-05-06', '2031-05-07'])

  const after = await Promise.all(['2031-05', '2031-06'].map((month) => ask(`/statements/${month}`)))
  expect(after.map(({ json }) => json)).toEqual(before.map(({ json }) => json))
  const rows = rowsOf(await ask(`/charges/export?${MAY}`))
  const dropped = rows.filter(({ type }) => type === 'dropped_day')
  expect(dropped.map(({ day, model, charges }) => [day, model, charges])).toEqual([
    ['2031-05-06', 'svc/rare', 3],
    ['2031-05-06', 'svc/test', 45],
    ['2031-05-07', 'svc/test', 12],
  ])
  expect(rows.some(({ type }) => type === 'charges')).toBe(false)
  expect(sumOf(rows)).toBe(1_000_000_000n - may)
  // An export that was begun before the days were dropped breaks off at its end, and can't be gone on with.
  const readOn = async () => {
    while ((await underWay?.read())?.done === false);
  }
  await expect(readOn()).rejects.toThrow('charges of the export were dropped while it was read')
  const resumed = await ask(`/charges/export?${MAY}&after=${begun[2]?.['id']}&as_of=${begun[0]?.['as_of']}`)
  expectRefusal(resumed, 'A', { status: 422, code: 'validation_failed', says: /begin it anew/ })

  expect(await recompute(['2031-05', '2031-06'], one)).toEqual([
    `2031-05 agrees: ${may} micro-cents charged, ${1_000_000_000n - may} left`,
    `2031-06 agrees: 154 micro-cents charged, ${1_000_000_000n - may - 154n} left`,
  ])
  await database.query(
    `update charges set cost_microcents = cost_microcents + 1
    where organization_id = $1::uuid and admitted_at >= '2031-06-02'`,
    [one.organizationId],
  )
  const [found] = await recompute(['2031-06'], one)
  expect(found).toContain('AssertionError')
}, 60_000)
