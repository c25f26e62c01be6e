/** Months of an organization's usage, held against its charges and its ledger; and the bugs that they must find. */

import { expect } from 'bun:test'
import { readBalance } from '../src/billing/admission/balance/balance.ts'
import type { Charge } from '../src/billing/charges/charge.ts'
import { adjustBalance } from '../src/billing/ledger/adjust.ts'
import { dropOldDays } from '../src/billing/ledger/retention/dropDays.ts'
import type { Window } from '../src/billing/usage/bucket.ts'
import type { Database, Queryable } from '../src/infra/postgres/database.ts'
import { systemRandom } from '../src/infra/random.ts'
import { DAY_MS, HOUR_MS } from '../src/lib/time.ts'
import { TurnedClock } from './clock.ts'
import { SILENCE } from './silence.ts'
import { ALL_GROUPINGS, openUsageBooks, pick, type Random, randomOf, type UsageBooks } from './usageBooks.ts'

const STARTED_MS = Date.UTC(2030, 0, 30, 12)

/** Bugs as people make them, each an exchange in a statement. */
export const PLANTED_USAGE_BUGS: readonly {
  readonly name: string
  readonly search: string
  readonly replace: string
}[] = [
  {
    name: 'sums are read whether or not they hold',
    search:
      'when b.requests + since.requests = t.requests and b.cost_microcents + since.cost_microcents = t.cost_microcents',
    replace: 'when true',
  },
  {
    name: 'the hours of a day since it was summed are left out',
    search: 'then b.summed_until end',
    replace: "then b.starts_at + b.hours * interval '1 hour' end",
  },
  {
    name: 'parts of a day begin an hour late',
    search: "date_bin('6 hours', hour, 'epoch')",
    replace: "date_bin('6 hours', hour, '1970-01-01T01:00Z')",
  },
  {
    name: 'sums that stand already are kept',
    search: 'where kept.requests <> excluded.requests',
    replace: 'where false',
  },
]

interface History {
  readonly usage: UsageBooks
  readonly clock: TurnedClock
  readonly random: Random
  readonly organizationId: string
  readonly charges: Charge[]
}

/** Any window of whole hours that ends at most an hour from now. */
function anyWindow({ clock, random }: History): Window {
  const nowMs = Math.ceil(clock.now() / HOUR_MS) * HOUR_MS
  const endMs = random(2) === 0 ? nowMs : nowMs - random(60 * 24) * HOUR_MS
  const edge = random(2) === 0 ? DAY_MS : HOUR_MS
  return { startMs: Math.floor((endMs - HOUR_MS - random(120 * 24) * HOUR_MS) / edge) * edge, endMs }
}

function checkAny(history: History, window = anyWindow(history)): Promise<void> {
  const { usage, random, organizationId, charges } = history
  const question = { organizationId, groupings: pick(random, ALL_GROUPINGS), window }
  return usage.check(charges, { ...question, limit: pick(random, [3, 30, 200]) })
}

async function postSome({ usage, clock, random, organizationId, charges }: History): Promise<void> {
  const lateMs = pick(random, [60 * DAY_MS, DAY_MS, HOUR_MS, HOUR_MS, HOUR_MS])
  for (let left = 1 + random(3); left > 0; left -= 1)
    charges.push(await usage.post(organizationId, random, clock.now() - random(lateMs)))
}

/** Every other run of the background is stopped after some blocks. */
function sumSome(history: History): Promise<void> {
  const { usage, random, organizationId } = history
  let left = random(2) === 0 ? random(12) : Number.POSITIVE_INFINITY
  return usage.sum(organizationId, anyWindow(history), () => left-- <= 0)
}

/** Some months of charges, late ones among them, corrections, runs of the background, and days that retention drops. */
async function play(history: History): Promise<void> {
  const { usage, clock, random, organizationId } = history
  const { database } = usage.books
  const untilMs = clock.now() + 60 * DAY_MS
  while (clock.now() < untilMs) {
    const kind = random(12)
    if (kind < 5) await postSome(history)
    else if (kind === 5) {
      const amountMicrocents = BigInt(random(1_000) - 500) * 2n + 1n
      const source = `adjustment:${crypto.randomUUID()}`
      const adjustment = { organizationId, amountMicrocents, source, note: 'a test', atMs: clock.now() }
      await adjustBalance(database, systemRandom(), adjustment)
    } else if (kind < 8) await sumSome(history)
    else if (kind === 8) await dropOldDays({ database, log: SILENCE }, 1 + random(20), clock.now())
    else if (kind === 9) await checkAny(history)
    else await clock.turn(random(40) * HOUR_MS + random(HOUR_MS))
  }
}

/** All that was charged, by the ledger and the balance alone. */
async function chargedByLedger(database: Queryable, organizationId: string): Promise<bigint> {
  const [ledger] = await database.query<{ credit: bigint }>(
    `select coalesce(sum(amount_microcents), 0)::bigint as credit from ledger_entries
     where organization_id = $1::uuid and kind <> 'charges'`,
    [organizationId],
  )
  return (ledger?.credit ?? 0n) - (await readBalance(database, organizationId))
}

/** Plays the history of a seed, and holds all of it against its charges and the ledger, before and after all is summed. */
async function holdHistory(usage: UsageBooks, clock: TurnedClock, seed: number): Promise<void> {
  const organizationId = await usage.organization()
  const history = { usage, clock, random: randomOf(seed), organizationId, charges: [] }
  await postSome(history)
  await play(history)
  const startMs = Math.floor(clock.now() / DAY_MS - 390) * DAY_MS
  const window = { startMs, endMs: Math.ceil(clock.now() / HOUR_MS) * HOUR_MS }
  for (const isSummed of [false, true]) {
    if (isSummed) await usage.sum(organizationId, window)
    for (let asked = 0; asked < 12; asked += 1) await checkAny(history, asked < 6 ? window : anyWindow(history))
    const { total } = await usage.read({ organizationId, groupings: ['model', 'key'], window, limit: 200 })
    expect(total.costMicrocents).toBe(await chargedByLedger(usage.books.database, organizationId))
  }
  await clock.turn(400 * DAY_MS)
}

/**
 * Plays the histories of so many seeds until one fails, whose error it returns; null where none does. `change` has each statement of usage
 * before it runs.
 */
export async function holdUsageHistories(seeds: number, change: (statement: string) => string): Promise<Error | null> {
  const clock = new TurnedClock(STARTED_MS)
  const usage = await openUsageBooks(clock, (database) => withStatements(database, change))
  try {
    for (let seed = 1; seed <= seeds; seed += 1) {
      const error = await holdHistory(usage, clock, seed).then(
        () => null,
        (cause) => new Error(`seed ${seed} fails`, { cause }),
      )
      if (error !== null) return error
    }
    return null
  } finally {
    await usage.books.drop()
  }
}

function withStatements(database: Database, change: (statement: string) => string): Database {
  return {
    ...database,
    query: (statement, parameters) => database.query(change(statement), parameters),
    transaction: (work, owner) =>
      database.transaction(
        (tx) => work({ ...tx, query: (statement, parameters) => tx.query(change(statement), parameters) }),
        owner,
      ),
  }
}
