/**
 * A primary is killed under 48 clients, and its standby is promoted; `DATABASE_URL` names both. With a synchronous
 * standby each whole answer is charged once. Charges that an asynchronous one has lost are reported, with their
 * number.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { systemClock } from '../../src/infra/clock.ts'
import { openClient } from '../../src/infra/postgres/client.ts'
import { makeCustomer, type TestKey } from '../customer.ts'
import type { TestServer } from '../server.ts'
import { type CutCall, type CutServers, openCutServers } from './cutHouse.ts'
import { type StandbyPair, startStandbyPair } from './standbyPair.ts'

const LIMIT_MS = 240_000
const SERVERS = 2
const CLIENTS = 24
const LOADED_MS = 2_000
const ANSWERED_WITHIN_MS = 2_000
const SAID_WITHIN_MS = 60_000
const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

let pair: StandbyPair
let house: CutServers
let customer: TestKey

async function open(isSynchronous: boolean): Promise<void> {
  pair = await startStandbyPair(isSynchronous)
  house = await openCutServers(pair.primaryUrl, SERVERS, pair.standbyUrl)
  const primary = openClient(pair.primaryUrl, { maxConnections: 1, clock: systemClock })
  customer = await makeCustomer(primary, { cents: 10_000_000 })
  await primary.close()
}

async function close(): Promise<void> {
  await house?.close()
  await pair?.stop()
}

/** Under load kills the primary and promotes the standby, and ends the load 5 s later; resolves to the instant of the promotion. */
async function failOver(before = async () => {}): Promise<number> {
  house.load(customer, CLIENTS)
  await pause(LOADED_MS)
  await before()
  await pair.killPrimary()
  await pair.promote()
  const promotedMs = performance.now()
  await pause(5_000)
  await house.hush()
  return promotedMs
}

/** When the first call of each server was answered whole after an instant, milliseconds. */
function firstAnswers(calls: readonly CutCall[], sinceMs: number): number[] {
  return house.servers.map((_, server) => {
    const whole = calls.filter((call) => call.server === server && call.status === 200 && call.sentMs > sinceMs)
    return Math.min(...whole.map(({ answeredMs }) => (answeredMs ?? Number.POSITIVE_INFINITY) - sinceMs))
  })
}

const answered = () => house.calls.filter(({ status }) => status === 200).length

/** Charges that are not given back. */
async function charged(): Promise<number> {
  const rows = await pair.standby.query<{ charged: number }>(
    `select ((select count(*) from charges) - (select count(*) from ledger_entries where kind = 'refund'))::int as charged`,
  )
  return rows[0]?.charged ?? 0
}

async function lostCharges({ adminUrl }: TestServer): Promise<number> {
  const page = await (await fetch(`${adminUrl}/metrics`)).text()
  return Number(/^tollgate_lost_charges_total (\S+)$/m.exec(page)?.[1])
}

async function warnings({ adminUrl }: TestServer): Promise<string[]> {
  return ((await (await fetch(`${adminUrl}/ready`)).json()) as { warnings: string[] }).warnings
}

describe('a synchronous standby', () => {
  beforeAll(() => open(true), LIMIT_MS)
  afterAll(close)

  test(
    'is promoted: each whole answer is charged once, and calls are answered within two seconds',
    async () => {
      const promotedMs = await failOver()
      const firsts = firstAnswers(house.calls, promotedMs)
      console.log(`${answered()} whole answers; the first after the promotion: ${firsts.map(Math.round).join(', ')} ms`)
      expect(Math.max(...firsts)).toBeLessThan(ANSWERED_WITHIN_MS)
      expect(await charged()).toBe(answered())
      for (const server of house.servers) expect([await lostCharges(server), await warnings(server)]).toEqual([0, []])
    },
    LIMIT_MS,
  )
})

describe('an asynchronous standby', () => {
  beforeAll(() => open(false), LIMIT_MS)
  afterAll(close)

  test(
    'that was behind is promoted: the charges that are missing are logged, counted and shown within a minute',
    async () => {
      const promotedMs = await failOver(async () => {
        await pair.partStandby()
        await pause(LOADED_MS)
      })
      const missing = answered() - (await charged())
      expect(missing).toBeGreaterThan(0)
      const found = async () => {
        let sum = 0
        for (const server of house.servers) sum += await lostCharges(server)
        return sum
      }
      while ((await found()) !== missing && performance.now() - promotedMs < SAID_WITHIN_MS) await pause(100)
      console.log(`${answered()} whole answers, ${missing} charges lost`)
      expect(await found()).toBe(missing)
      for (const server of house.servers) {
        expect(await warnings(server)).toEqual([
          expect.stringContaining(`has lost ${await lostCharges(server)} charge`),
        ])
        expect(server.errors()).toContain('the database has lost charges that it had confirmed')
      }
    },
    LIMIT_MS,
  )
})
