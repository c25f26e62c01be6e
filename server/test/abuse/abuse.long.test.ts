/**
 * Every attack for a few seconds: the memory, rows and files that it takes, what it is answered, what held the event loop, and how
 * the other customer fares.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Harness, KEPT_BYTES_MOST, type Outcome, openHarness } from './harness.ts'
import { attackNames } from './loadAttacks.ts'

const SECONDS = 4
const LIMIT_MS = 120_000
/** A checkpoint of the database, or what else happens now and then, may spoil one. */
const TRIES = 2
/** No attack is tried again after this, so that the file ends within the time of one. */
const TRY_AGAIN_MS = 200_000

const MEGABYTES_OVER_IDLE = 150
/** The most that one attack leaves of an organization with four keys: small answers that it paid for, videos, deliveries. */
const ROWS_ADDED = 1_000
const DATABASE_MEGABYTES_ADDED = 24
/** One answer of 12 MB may go beyond the quota. */
const FILE_MEGABYTES_ADDED = KEPT_BYTES_MOST / 2 ** 20 + 14

/**
 * Of the other customer's calls, against those beside a server that discards the same bytes, in the same run. It holds on a machine
 * that does nothing else: where other programs take its cores, a gateway that works waits for them more often than one that does not.
 */
const P99_RATIO_MOST = 3
/** Where the calls beside the other server take a few milliseconds, three times that says little. The aim is 20. */
const P99_FLOOR_MS = 60
/** Milliseconds of the thread's own work in one go, whatever else the machine does. The aim is 20. */
const HELD_MOST_MS = 40

/** Statuses of which each attack must see one: it was refused, or found nothing to take. */
const REFUSED: Readonly<Record<string, readonly number[]>> = {
  cancelledVideos: [202],
  completeGzip: [400],
  deliveriesList: [429],
  doubleLengths: [400, 429],
  keptAnswers: [200],
  largeBodies: [429],
  manyParts: [400],
  pendingDeliveries: [202, 402],
  pipelined: [404],
  redeliveries: [202, 429],
  replays: [200],
  revokedKeys: [201, 204, 401],
  slowBodies: [429],
  tinyChunks: [400],
  unfinishedGzip: [],
  unknownKeys: [401],
  webhookTests: [429],
  wrongMessages: [422],
}

let harness: Harness
const startedMs = performance.now()
beforeAll(async () => {
  harness = await openHarness({ isWatched: true })
}, LIMIT_MS)
afterAll(() => harness.close(), LIMIT_MS)

const longestHeld = ({ held }: Outcome) => Math.max(0, ...held.map(({ milliseconds }) => milliseconds))

/** Returns whether the times of an attack are within their bounds. On a loaded machine one try may miss them. */
function isInTime(outcome: Outcome): boolean {
  const most = Math.max(P99_FLOOR_MS, P99_RATIO_MOST * outcome.tenantBesideDiscard.latencies.p99)
  return outcome.tenant.latencies.p99 <= most && longestHeld(outcome) <= HELD_MOST_MS
}

function expectBounds(name: string, outcome: Outcome): void {
  expect([...outcome.tenant.byStatus.keys()]).toEqual([200])
  expect(outcome.megabytesOverIdle).toBeLessThan(MEGABYTES_OVER_IDLE)
  expect(outcome.rowsAdded).toBeLessThan(ROWS_ADDED)
  expect(outcome.databaseMegabytesAdded).toBeLessThan(DATABASE_MEGABYTES_ADDED)
  expect(outcome.fileMegabytesAdded).toBeLessThan(FILE_MEGABYTES_ADDED)
  const answered = new Set(outcome.byStatus.keys())
  expect(REFUSED[name]?.filter((status) => !answered.has(status))).toEqual([])
}

function tell(name: string, { tenant, tenantBesideDiscard, ...outcome }: Outcome): void {
  console.log(
    `${name}: ${outcome.megabytesOverIdle.toFixed(0)} MB over idle, p99 ${tenant.latencies.p99.toFixed(0)} ms ` +
      `(${tenantBesideDiscard.latencies.p99.toFixed(0)} ms), held ${longestHeld({ tenant, tenantBesideDiscard, ...outcome })} ms, ` +
      `${outcome.rowsAdded} rows, ${outcome.fileMegabytesAdded.toFixed(0)} MB of files`,
  )
}

test.each(attackNames())(
  '%s: another customer is answered in time, and memory, rows and files are bounded',
  async (name) => {
    let outcome = await harness.attack(name, SECONDS)
    tell(name, outcome)
    expectBounds(name, outcome)
    for (let tries = 1; tries < TRIES && !isInTime(outcome); tries += 1) {
      if (performance.now() - startedMs > TRY_AGAIN_MS) break
      outcome = await harness.attack(name, SECONDS)
      tell(name, outcome)
      expectBounds(name, outcome)
    }
    const { held, tenant, tenantBesideDiscard } = outcome
    const seen = { held: held.filter(({ milliseconds }) => milliseconds > HELD_MOST_MS), tenant, tenantBesideDiscard }
    expect(isInTime(outcome) ? 'in time' : seen).toBe('in time')
  },
  LIMIT_MS,
)
