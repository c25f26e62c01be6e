/**
 * The network between real servers and their PostgreSQL is cut without a word, for 2 to 58 s: nobody ends, nobody is taken for a rival,
 * and calls are answered within 5 s of the cut's end. One server and two; three kinds of cuts, side by side.
 */

import { expect, test } from 'bun:test'
import { findImbalances } from '../../src/billing/charges/store.ts'
import { makeCustomer } from '../customer.ts'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import { freshSeeds, longSeconds, withSeed } from '../seeds.ts'
import { type CutCall, type CutServers, openCutServers } from './cutHouse.ts'

const SLACK_MS = 240_000
/** 2, 6, … 58 s. */
const LENGTHS = 15
/** Short ones and long ones by turns, so that a part of the sweep has some of each. */
const STRIDE = 7
const CLIENTS = 4
const ANSWERED_WITHIN_MS = 5_000
const REFUSED_WITHIN_MS = 3_000
const REFUSALS = 5

/**
 * - `dropped`: nothing passes, then all of it arrives, as with packets that are sent again
 * - `lost`: nothing passes, and what was open stays silent afterwards
 * - `forgotten`: what is open stays silent, and new connections pass all the time
 */
const KINDS = ['dropped', 'lost', 'forgotten'] as const
type Kind = (typeof KINDS)[number]

const lengthMs = (seed: number) => 2_000 + 4_000 * ((seed * STRIDE) % LENGTHS)
const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

async function calm<T>(work: (fresh: FreshDatabase, house: CutServers) => Promise<T>, count: number): Promise<T> {
  const fresh = await freshDatabase()
  const house = await openCutServers(fresh.url, count)
  try {
    return await work(fresh, house)
  } finally {
    await house.close()
    await fresh.drop()
  }
}

/** Nobody has ended, and nobody has taken anybody for a rival. */
function expectAlive({ servers }: CutServers): void {
  for (const { process, errors } of servers) {
    expect([process.exitCode, process.signalCode]).toEqual([null, null])
    expect(errors()).not.toContain('Another Tollgate server')
  }
}

/**
 * Returns how long after the cut's end the first call of the slowest server was answered whole, and the last of those
 * that waited then.
 */
function judge(calls: readonly CutCall[], servers: number, endedMs: number): { firstMs: number; waitedMs: number } {
  const after = (call: CutCall) => (call.answeredMs ?? Number.POSITIVE_INFINITY) - endedMs
  const whole = calls.filter((call) => call.status === 200 && after(call) > 0)
  const firsts = Array.from({ length: servers }, (_, server) =>
    Math.min(...whole.filter((call) => call.server === server).map(after)),
  )
  const waiting = calls.filter((call) => call.sentMs < endedMs && after(call) > 0)
  return { firstMs: Math.max(...firsts), waitedMs: Math.max(0, ...waiting.map(after)) }
}

async function cut(kind: Kind, count: number, forMs: number): Promise<string> {
  return calm(async (fresh, house) => {
    const customer = await makeCustomer(fresh.database, { cents: 10_000_000 })
    house.load(customer, CLIENTS)
    await pause(1_000)
    const { proxy } = house
    let endedMs = performance.now()
    if (kind === 'forgotten') {
      proxy.forget()
      await pause(forMs)
    } else {
      proxy.fallSilent()
      await pause(forMs)
      proxy.recover(kind === 'dropped' ? 'delivered' : 'lost')
      endedMs = performance.now()
    }
    await pause(ANSWERED_WITHIN_MS + 1_000)
    await house.hush()
    expectAlive(house)
    const { firstMs, waitedMs } = judge(house.calls, count, endedMs)
    const figures = `${kind}, ${count} servers: first whole answer after ${Math.round(firstMs)} ms, those that waited after ${Math.round(waitedMs)} ms`
    expect(Math.max(firstMs, waitedMs), figures).toBeLessThan(ANSWERED_WITHIN_MS)
    const late = house.calls.filter(({ sentMs, status }) => sentMs > endedMs + ANSWERED_WITHIN_MS && status !== 200)
    expect(late).toEqual([])
    expect(await findImbalances(fresh.database)).toEqual([])
    const [row] = await fresh.database.query<{ count: bigint }>('select count(*) as count from charges')
    const whole = house.calls.filter(({ status }) => status === 200).length
    expect(Number(row?.count)).toBeGreaterThanOrEqual(whole)
    return figures
  }, count)
}

test(
  'servers go on after every cut',
  async () => {
    const { first, goesOn } = freshSeeds({ aDay: LENGTHS })
    let count = 0
    for (; count < LENGTHS && (count === 0 || goesOn()); count += 1) {
      const seed = first + count
      const forMs = lengthMs(seed)
      await withSeed(seed, async () => {
        const figures = await Promise.all(KINDS.flatMap((kind) => [1, 2].map((servers) => cut(kind, servers, forMs))))
        for (const each of figures) console.log(`cut of ${forMs / 1_000} s, ${each}`)
      })
    }
    console.log(`seeds: ${count} lengths of cuts`)
  },
  longSeconds() * 1_000 + SLACK_MS,
)

test(
  'a server that starts during a cut, and one that is killed in it and starts again, wait and then serve',
  () =>
    calm(async (fresh, house) => {
      const [first] = house.servers
      if (first === undefined) throw new Error('no server')
      const customer = await makeCustomer(fresh.database, { cents: 1_000_000 })
      house.proxy.fallSilent()
      await pause(8_000)
      await first.kill()
      const starting = [house.start(first.dataDir), house.start()]
      await pause(12_000)
      house.proxy.recover()
      const endedMs = performance.now()
      const [again] = await Promise.all(starting)
      const tookMs = performance.now() - endedMs
      console.log(`started during a cut, both serve ${Math.round(tookMs)} ms after its end`)
      expect(tookMs).toBeLessThan(2 * ANSWERED_WITHIN_MS)
      expect(again?.errors()).not.toContain('Another Tollgate server')
      house.servers.splice(0, 1)
      house.load(customer, 1)
      await pause(1_000)
      await house.hush()
      expect(house.calls.filter(({ status }) => status !== 200)).toEqual([])
    }, 1),
  120_000,
)

test(
  'a second server on the same data directory is refused within 3 s',
  () =>
    calm(async (_, house) => {
      const [first] = house.servers
      const times: number[] = []
      for (let time = 0; time < REFUSALS; time += 1) {
        const { code, errors, tookMs } = await house.refused(first?.dataDir ?? '')
        expect([code, errors]).toEqual([1, expect.stringContaining('Another Tollgate server already serves')])
        times.push(tookMs)
      }
      const sorted = times.toSorted((one, other) => one - other).map(Math.round)
      console.log(`refused after ${sorted.join(', ')} ms, with the start of the command`)
      // One start may be slow on a busy machine.
      expect(sorted[REFUSALS >> 1]).toBeLessThan(REFUSED_WITHIN_MS)
      expectAlive(house)
    }, 1),
  120_000,
)
