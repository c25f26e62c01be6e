import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Books, openBooks } from '../../../../test/books.ts'
import { SettableClock, TurnedClock } from '../../../../test/clock.ts'
import { SILENCE } from '../../../../test/silence.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { uuidV7 } from '../../../lib/ids.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../lib/time.ts'
import { readBalance } from '../../admission/balance/balance.ts'
import { dropOldDays } from '../../ledger/retention/dropDays.ts'
import { parseMonth, type Statement } from '../months/month.ts'
import { createStatementReader } from '../months/read.ts'
import { closeDays } from './closeDays.ts'
import { closeMonths } from './closeMonths.ts'

const clock = new SettableClock(Date.UTC(2030, 0, 30, 12))

let books: Books
let one: string
beforeAll(async () => {
  books = await openBooks(clock)
  one = await books.organization(10n ** 12n)
}, 60_000)
afterAll(() => books.drop())

async function close(): Promise<{ days: readonly string[]; months: readonly string[] }> {
  const days = await closeDays(books.database, clock.now(), 100)
  return { days, months: await closeMonths(books.database, clock.now()) }
}

async function statementOf(organizationId: string, month: string): Promise<Statement> {
  const parsed = parseMonth(month)
  if (parsed === null) throw new Error(`${month} is no month`)
  const found = await createStatementReader({ database: books.database, clock }).read(organizationId, parsed)
  if (found === null) throw new Error(`no statement of ${month}`)
  return found
}

const turnTo = (atMs: number) => clock.turn(atMs - clock.now())

test('a month is closed an hour after its last day, each month once, and its statement never changes', async () => {
  const charge = await books.post(one, clock.now())
  await turnTo(Date.UTC(2030, 1, 1, 0, 59))
  expect(await close()).toEqual({ days: ['2030-01-29', '2030-01-30'], months: [] })
  expect(await statementOf(one, '2030-01')).toMatchObject({ state: 'open', chargesMicrocents: charge.costMicrocents })

  await clock.turn(MINUTE_MS)
  expect(await close()).toEqual({ days: ['2030-01-31'], months: ['2030-01-01'] })
  const january = await statementOf(one, '2030-01')
  expect(january).toMatchObject({
    state: 'closed',
    asOfMs: clock.now(),
    openingMicrocents: 0n,
    credits: [{ kind: 'credit', source: 'test', entries: 1n, amountMicrocents: 10n ** 12n }],
    charges: [{ model: 'svc/test', tier: 'serverless', charges: 1n, costMicrocents: charge.costMicrocents }],
    closingMicrocents: 10n ** 12n - charge.costMicrocents,
  })
  expect(await close()).toEqual({ days: [], months: [] })

  await clock.turn(HOUR_MS)
  const late = await books.post(one, Date.UTC(2030, 0, 31, 23, 59), { model: 'svc/late' })
  await books.grant(one, 5n)
  expect(await statementOf(one, '2030-01')).toEqual(january)
  expect(await statementOf(one, '2030-02')).toMatchObject({
    state: 'open',
    openingMicrocents: january.closingMicrocents,
    charges: [{ model: 'svc/late', charges: 1n, costMicrocents: late.costMicrocents }],
    closingMicrocents: january.closingMicrocents + 5n - late.costMicrocents,
  })
  expect(await books.verify()).toEqual([])
})

test('an organization that came after a month was closed has a closed statement of it, without anything', async () => {
  const late = await books.organization(7n)
  for (const month of ['2029-11', '2030-01']) {
    expect(await statementOf(late, month)).toMatchObject({ state: 'closed', credits: [], closingMicrocents: 0n })
  }
  expect(await statementOf(late, '2030-01')).toMatchObject({ asOfMs: Date.UTC(2030, 1, 1, 1) })
})

test('several processes at once close each day and each month once', async () => {
  await turnTo(Date.UTC(2030, 2, 1, 1))
  const closed = await Promise.all([close(), close(), close()])
  // A process that finds another one at it leaves the rest to that one.
  closed.push(await close())
  const days = closed.flatMap((each) => each.days)
  expect(days.length).toBe(28)
  expect(new Set(days).size).toBe(28)
  expect(closed.flatMap((each) => each.months)).toEqual(['2030-02-01'])
})

test('the month to close is looked for once a month, however many pages of accounts it has', async () => {
  const fresh = await openBooks(new TurnedClock(Date.UTC(2030, 0, 30, 12)))
  try {
    for (let count = 0; count < 401; count += 1) await fresh.organization(1n)
    await closeDays(fresh.database, Date.UTC(2030, 1, 2), 100)
    const asked: string[] = []
    const seen: Database = {
      ...fresh.database,
      query: (sql, values) => {
        asked.push(sql)
        return fresh.database.query(sql, values)
      },
      transaction: (work) =>
        fresh.database.transaction((tx) =>
          work({
            ...tx,
            query: (sql, values) => {
              asked.push(sql)
              return tx.query(sql, values)
            },
          }),
        ),
    }
    expect(await closeMonths(seen, Date.UTC(2030, 1, 2))).toEqual(['2030-01-01'])
    expect(asked.filter((sql) => sql.includes('min(posted_day)'))).toHaveLength(2)
  } finally {
    await fresh.drop()
  }
})

test('a charge that is committed into a closed day is found', async () => {
  const strayId = uuidV7(Date.UTC(2030, 1, 10), (length) => crypto.getRandomValues(new Uint8Array(length)))
  await turnTo(Date.UTC(2030, 2, 2))
  const charge = await books.post(one, clock.now(), { chargeId: strayId })
  const move = (to: string) =>
    books.database.query(`update charges set posted_at = $1::timestamptz where id = $2::uuid`, [to, strayId])
  await move('2030-02-11T00:00:00Z')
  const [found] = await books.verify()
  expect(found).toMatchObject({ kind: 'statement', organizationId: one })
  if (found?.kind !== 'statement') throw new Error('not found')
  expect(found.stated - found.booked).toBe(charge.costMicrocents)
  await move('2030-03-02T00:00:00Z')
  expect(await books.verify()).toEqual([])
})

test('after the clock was set back across closed days, and a month, charges and credits count in what is open', async () => {
  await turnTo(Date.UTC(2030, 3, 3, 2))
  await close()
  const [march, april] = [await statementOf(one, '2030-03'), await statementOf(one, '2030-04')]
  for (const atMs of [Date.UTC(2030, 3, 1, 23), Date.UTC(2030, 2, 30, 12)]) {
    clock.set(atMs)
    const charge = await books.post(one, clock.now(), { model: 'svc/set-back' })
    await books.grant(one, 3n)
    const [{ posted_at: postedAt = null } = {}] = await books.database.query<{ posted_at: Date | null }>(
      'select posted_at from charges where id = $1::uuid',
      [charge.chargeId],
    )
    // The first instant that no closed day has.
    expect(postedAt?.getTime()).toBe(Date.UTC(2030, 3, 3))
  }
  clock.set(Date.UTC(2030, 3, 3, 3))
  const after = await statementOf(one, '2030-04')
  expect(after.charges).toMatchObject([{ model: 'svc/set-back', charges: 2n }])
  const charged = after.charges.reduce((sum, { costMicrocents }) => sum + costMicrocents, 0n)
  expect(after.closingMicrocents).toBe(april.closingMicrocents + 6n - charged)
  expect(await statementOf(one, '2030-03')).toEqual(march)
  expect(await books.verify()).toEqual([])
  await turnTo(Date.UTC(2030, 3, 5))
  await close()
  expect(await statementOf(one, '2030-04')).toMatchObject({ closingMicrocents: after.closingMicrocents })
  expect(await books.verify()).toEqual([])
})

/** A generator that a seed decides. */
function randomOf(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

interface Movement {
  readonly month: string
  readonly microcents: bigint
}

/** Half a year of charges, late charges, credits, closings and dropped days; every movement, as it was made. */
async function playHalfYear(seed: number, organizations: readonly string[]): Promise<Map<string, Movement[]>> {
  const random = randomOf(seed)
  const made = new Map<string, Movement[]>(organizations.map((id) => [id, []]))
  const untilMs = clock.now() + 183 * DAY_MS
  while (clock.now() < untilMs) {
    const organizationId = organizations[random(organizations.length)] ?? ''
    const month = new Date(clock.now()).toISOString().slice(0, 7)
    const kind = random(10)
    if (kind < 5) {
      const lateMs = random(3) === 0 ? random(45 * DAY_MS) : random(HOUR_MS)
      const charge = await books.post(organizationId, clock.now() - lateMs, { model: `svc/m${random(3)}` })
      made.get(organizationId)?.push({ month, microcents: -charge.costMicrocents })
    } else if (kind === 5) {
      const microcents = BigInt(1 + random(10 ** 9))
      await books.grant(organizationId, microcents)
      made.get(organizationId)?.push({ month, microcents })
    } else if (kind === 6) await close()
    else if (kind === 7) {
      const retentionDays = 1 + random(20)
      await dropOldDays({ database: books.database, log: SILENCE }, retentionDays, clock.now())
    } else await clock.turn(random(4) * DAY_MS + random(DAY_MS))
  }
  return made
}

const SEEDS = Number(process.env['TOLLGATE_SEEDS'] ?? 2)

test('opening balance and movements are the closing balance and the next opening, over random months', async () => {
  console.log(`seeds: ${SEEDS}`)
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    await clock.turn(62 * DAY_MS)
    const firstMs = clock.now()
    const organizations = await Promise.all([books.organization(0n), books.organization(0n)])
    const made = await playHalfYear(seed, organizations)
    for (const organizationId of organizations) {
      const movements = made.get(organizationId) ?? []
      let balance = 0n
      let atMs = firstMs
      for (let month = ''; atMs <= clock.now(); atMs = Date.parse(`${month}-01T00:00:00Z`) + 32 * DAY_MS) {
        month = new Date(atMs).toISOString().slice(0, 7)
        const statement = await statementOf(organizationId, month)
        const moved = movements.reduce((sum, each) => (each.month === month ? sum + each.microcents : sum), 0n)
        expect([seed, month, statement.openingMicrocents]).toEqual([seed, month, balance])
        balance += moved
        expect([seed, month, statement.closingMicrocents]).toEqual([seed, month, balance])
      }
      expect(await readBalance(books.database, organizationId)).toBe(balance)
    }
    expect(await books.verify()).toEqual([])
    expect(await books.imbalances()).toEqual([])
  }
}, 300_000)
