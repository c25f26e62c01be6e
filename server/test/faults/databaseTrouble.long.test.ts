/** The gateway's PostgreSQL dies, hangs and stalls under load: nothing is lost, nothing is free, and it mends by itself. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { MICROCENTS_PER_CENT } from '../../src/lib/money.ts'
import { makeCustomer, type TestKey } from '../customer.ts'
import { killPostgres, openDirectory, readPostmaster, signalPostgres } from '../dataDirectory.ts'
import { startServer, type TestServer } from '../server.ts'
import { audit } from './audit.ts'
import { type CountingProvider, startCountingProvider } from './countingProvider.ts'
import { brokenOff, settingsFor } from './killRun.ts'
import { seeded } from './seeded.ts'
import { isUnavailable, isWhole, type SteadyLoad, startSteadyLoad } from './steadyLoad.ts'

const LIMIT_MS = 120_000
const CLIENTS = 40
const CENTS = 10_000_000
/** After this new calls are refused; the tests hold the database up for longer. */
const REFUSED_AFTER_MS = 2_000

let provider: CountingProvider
let server: TestServer
let customer: TestKey
let load: SteadyLoad

beforeAll(async () => {
  provider = startCountingProvider()
  server = await startServer({ settings: settingsFor(provider) })
}, LIMIT_MS)

afterAll(async () => {
  await server.remove()
  await provider.stop()
}, LIMIT_MS)

beforeEach(async () => {
  provider.forget()
  const database = await openDirectory(server.dataDir)
  customer = await makeCustomer(database, { cents: CENTS })
  await database.close()
  load = startSteadyLoad(server.url, customer.key, CLIENTS, seeded(1))
  await load.more(200, isWhole)
}, LIMIT_MS)

afterEach(async () => {
  await load.end()
  // No answer was broken off, and whatever was not answered was refused in words that promise another try.
  expect(load.received.flatMap(brokenOff)).toEqual([])
  const refused = load.received.filter((each) => !each.whole)
  expect(refused.filter((each) => !isUnavailable(each))).toEqual([])
  expect(await server.stop()).toBe(0)
  server = await startServer({ settings: settingsFor(provider), dataDir: server.dataDir })
  const database = await openDirectory(server.dataDir)
  const problems = await audit(database, {
    organizationId: customer.organizationId,
    grantedMicrocents: BigInt(CENTS) * MICROCENTS_PER_CENT,
    received: load.received,
    provider,
    stoppedCleanly: true,
  })
  await database.close()
  expect(problems).toEqual([])
  const whole = load.received.filter(isWhole).length
  console.log(`${whole} answers whole and charged once, ${refused.length} calls refused`)
}, LIMIT_MS)

describe('the database server', () => {
  test.each(['SIGQUIT', 'SIGKILL'])(
    'ends by %s: it is started again, and calls are served again',
    async (signal) => {
      for (let outage = 0; outage < 3; outage += 1) {
        const { pid } = await readPostmaster(server.dataDir)
        if (signal === 'SIGKILL') await killPostgres(server.dataDir)
        // `pg_ctl stop -m immediate` sends this signal.
        else process.kill(pid, 'SIGQUIT')
        await load.more(200, isWhole)
        expect((await readPostmaster(server.dataDir)).pid).not.toBe(pid)
      }
    },
    LIMIT_MS,
  )

  test(
    'hangs: answers wait, new calls are refused, and all goes on when it is back',
    async () => {
      await signalPostgres(server.dataDir, 'SIGSTOP')
      const stoppedAtMs = performance.now()
      try {
        await load.probe(50, isUnavailable)
        expect(performance.now() - stoppedAtMs).toBeGreaterThan(REFUSED_AFTER_MS)
      } finally {
        await signalPostgres(server.dataDir, 'SIGCONT')
      }
      await load.more(200, isWhole)
    },
    LIMIT_MS,
  )
})

test(
  'commits stall: answers wait for their charge, new calls are refused, and every charge is made in the end',
  async () => {
    const other = await openDirectory(server.dataDir)
    let wholeWhileLocked = 0
    await other.transaction(async (tx) => {
      await tx.query('lock table charges in access exclusive mode')
      const before = load.received.filter(isWhole).length
      await load.probe(50, isUnavailable)
      wholeWhileLocked = load.received.filter(isWhole).length - before
      const ready = await fetch(`${server.adminUrl}/ready`)
      expect(ready.status).toBe(503)
      expect(await ready.text()).toContain('not being committed')
    })
    await other.close()
    await load.more(200, isWhole)
    // Calls that were committed when the lock was taken may still have been on their way to their clients.
    expect(wholeWhileLocked).toBeLessThanOrEqual(CLIENTS)
  },
  LIMIT_MS,
)

test(
  'a table is locked: its reads get their answer within 7 s, and calls go on',
  async () => {
    const other = await openDirectory(server.dataDir)
    await other.transaction(async (tx) => {
      await tx.query('lock table videos, webhook_endpoints in access exclusive mode')
      const startedAtMs = performance.now()
      const headers = { Authorization: `Bearer ${customer.key}` }
      const paths = ['/videos', '/webhook-endpoints', '/videos', '/webhook-endpoints', '/videos', '/webhook-endpoints']
      const answers = await Promise.all(paths.map((path) => fetch(`${server.url}${path}`, { headers })))
      const tookMs = performance.now() - startedAtMs
      expect(answers.map(({ status }) => status)).toEqual(paths.map(() => 503))
      expect(tookMs).toBeGreaterThan(4_900)
      expect(tookMs).toBeLessThan(7_000)
      const before = load.received.length
      await load.more(200, isWhole)
      expect(load.received.slice(before).filter((each) => !isWhole(each))).toEqual([])
      console.log(`${paths.length} reads answered with 503 within ${Math.round(tookMs)} ms`)
    })
    await other.close()
    await load.more(50, isWhole)
  },
  LIMIT_MS,
)
