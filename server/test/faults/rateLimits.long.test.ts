/** Four gateway processes that share Redis: they admit what the limit says for one key, and do without when it is killed. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { systemClock } from '../../src/io/clock.ts'
import { makeCustomer, type TestKey } from '../customer.ts'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import { startRedis, type TestRedis } from '../redis.ts'
import { startServer, type TestServer } from '../server.ts'

const PROCESSES = 4
/** As the limits come. */
const PER_SECOND = 100
const BURST = 200
/** What is admitted may differ from what is right by so much. */
const TOLERANCE = 0.02
/** Four times what one key may. */
const FLOOD_PER_SECOND = 400
const ADDED_P99_MS = 5
const TICK_MS = 5

let fresh: FreshDatabase
let redis: TestRedis
const servers: TestServer[] = []
const agent = new Agent({ keepAlive: true, maxSockets: 64 })

beforeAll(async () => {
  redis = await startRedis()
  fresh = await freshDatabase()
  const environment = { DATABASE_URL: fresh.url, REDIS_URL: redis.url }
  // The first applies the migrations.
  for (let number = 0; number < PROCESSES; number += 1) servers.push(await startServer({ environment }))
}, 120_000)

afterAll(async () => {
  agent.destroy()
  for (const server of servers) await server.remove()
  await fresh.drop()
  await redis.kill()
}, 120_000)

interface Asked {
  readonly atMs: number
  readonly tookMs: number
  readonly status: number
}

async function ask(server: TestServer, { key }: TestKey): Promise<Asked> {
  const atMs = systemClock.monotonicMs()
  const sent = request(`${server.url}/models`, { agent, headers: { Authorization: `Bearer ${key}` } })
  sent.end()
  const [response] = await once(sent, 'response')
  response.resume()
  await once(response, 'end')
  return { atMs, tookMs: systemClock.monotonicMs() - atMs, status: response.statusCode }
}

/** Asks the processes in turn, at a fixed rate whatever they do, with the keys in turn; until `isOver`. */
async function load(keys: readonly TestKey[], perSecond: number, isOver: () => boolean): Promise<Asked[]> {
  const asked: Promise<Asked>[] = []
  const startedAtMs = systemClock.monotonicMs()
  while (!isOver()) {
    const due = Math.floor(((systemClock.monotonicMs() - startedAtMs) * perSecond) / 1_000)
    while (asked.length < due) {
      const server = servers[asked.length % PROCESSES]
      const key = keys[Math.floor(asked.length / PROCESSES) % keys.length]
      if (server === undefined || key === undefined) throw new Error('there is nobody to ask')
      asked.push(ask(server, key))
    }
    await Bun.sleep(TICK_MS)
  }
  return Promise.all(asked)
}

function lasting(milliseconds: number): () => boolean {
  const endAtMs = systemClock.monotonicMs() + milliseconds
  return () => systemClock.monotonicMs() > endAtMs
}

function percentile(asked: readonly Asked[], share: number): number {
  const sorted = asked.map(({ tookMs }) => tookMs).sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

function statuses(asked: readonly Asked[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status } of asked) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

test('four processes admit what one key may, within 2 %', async () => {
  const key = await makeCustomer(fresh.database)
  const asked = await load([key], FLOOD_PER_SECOND, lasting(12_000))
  const admitted = asked.filter(({ status }) => status === 200)
  const seconds = ((admitted.at(-1)?.atMs ?? 0) - (admitted[0]?.atMs ?? 0)) / 1_000
  const right = BURST + PER_SECOND * seconds
  console.log(`${admitted.length} of ${asked.length} admitted in ${seconds.toFixed(2)} s; right: ${right.toFixed(0)}`)
  expect(new Set(asked.map(({ status }) => status))).toEqual(new Set([200, 429]))
  expect(Math.abs(admitted.length - right) / right).toBeLessThan(TOLERANCE)
}, 60_000)

/** Slow machines add their own delays to both halves; what the store's end adds is between them. */
async function addedBy(trouble: () => unknown, keys: readonly TestKey[]): Promise<number> {
  const before = await load(keys, 200, lasting(4_000))
  const soon = systemClock.monotonicMs() + 500
  let done = false
  const during = await load(keys, 200, () => {
    if (!done && systemClock.monotonicMs() > soon) {
      done = true
      void trouble()
    }
    return systemClock.monotonicMs() > soon + 3_500
  })
  expect(statuses([...before, ...during])).toEqual({ 200: before.length + during.length })
  const added = percentile(during, 0.99) - percentile(before, 0.99)
  console.log(`p99 ${percentile(before, 0.99).toFixed(2)} ms, then ${percentile(during, 0.99).toFixed(2)} ms`)
  return added
}

test('Redis killed in mid-load: nobody is refused or slowed; back again, limits hold within a second', async () => {
  const keys = await Promise.all(Array.from({ length: 8 }, () => makeCustomer(fresh.database)))
  expect(await addedBy(() => redis.kill(), keys)).toBeLessThan(ADDED_P99_MS)
  const flooder = await makeCustomer(fresh.database)
  const unlimited = await load([flooder], FLOOD_PER_SECOND, lasting(2_000))
  expect(statuses(unlimited)).toEqual({ 200: unlimited.length })
  let backAtMs = Number.POSITIVE_INFINITY
  void redis.start().then(() => {
    backAtMs = systemClock.monotonicMs()
  })
  const flood = await load([flooder], FLOOD_PER_SECOND, () => systemClock.monotonicMs() > backAtMs + 5_000)
  const later = flood.filter(({ atMs }) => atMs > backAtMs + 1_000)
  const admitted = later.filter(({ status }) => status === 200).length
  console.log(`after a second: ${admitted} of ${later.length} admitted in 4 s`)
  expect(admitted).toBeLessThan((BURST + PER_SECOND * 4) * (1 + TOLERANCE))
  expect(later.at(-1)?.status === 429 || later.at(-2)?.status === 429).toBe(true)
}, 60_000)

test('Redis that stands still: nobody is refused or slowed, but for the moment in which it shows', async () => {
  const keys = await Promise.all(Array.from({ length: 8 }, () => makeCustomer(fresh.database)))
  expect(await addedBy(() => redis.signal('SIGSTOP'), keys)).toBeLessThan(60)
  redis.signal('SIGCONT')
}, 60_000)
