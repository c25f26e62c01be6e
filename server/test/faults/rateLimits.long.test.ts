/**
 * Four gateway processes that share Redis: they admit what the limit says for one key, refuse nobody when it is
 * killed or stands still, and hold the limit again within a second. `bench/limits.ts` measures the time that this
 * costs.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { systemClock } from '../../src/infra/clock.ts'
import { makeCustomer, type TestKey } from '../customer.ts'
import type { TestRedis } from '../redis.ts'
import { type LimitedFleet, lasting, startLimitedFleet, statuses, troubled } from './keyLoad.ts'

const PROCESSES = 4
/** As the limits come. */
const PER_SECOND = 100
const BURST = 200
/** The part by which the number of admitted requests may differ from the limit. */
const TOLERANCE = 0.02
/** Four times what one key may. */
const FLOOD_PER_SECOND = 400
/** The rate of all keys of a crowd together, which is below the limit of each. */
const CROWD_PER_SECOND = 200

let fleet: LimitedFleet
const customer = () => makeCustomer(fleet.fresh.database)
beforeAll(async () => {
  fleet = await startLimitedFleet(PROCESSES)
}, 120_000)
afterAll(() => fleet.close(), 120_000)

test('four processes admit what one key may, within 2 %', async () => {
  const asked = await fleet.load([await customer()], FLOOD_PER_SECOND, lasting(12_000))
  const admitted = asked.filter(({ status }) => status === 200)
  const seconds = ((admitted.at(-1)?.atMs ?? 0) - (admitted[0]?.atMs ?? 0)) / 1_000
  const right = BURST + PER_SECOND * seconds
  console.log(`${admitted.length} of ${asked.length} admitted in ${seconds.toFixed(2)} s; right: ${right.toFixed(0)}`)
  expect(new Set(asked.map(({ status }) => status))).toEqual(new Set([200, 429]))
  expect(Math.abs(admitted.length - right) / right).toBeLessThan(TOLERANCE)
}, 60_000)

const faults: [string, (redis: TestRedis) => unknown, (redis: TestRedis) => Promise<void>][] = [
  ['is killed', (redis) => redis.kill(), (redis) => redis.start()],
  ['stands still', (redis) => redis.signal('SIGSTOP'), async (redis) => redis.signal('SIGCONT')],
]

test.each(faults)(
  'Redis that %s in mid-load: nobody is refused; back again, limits hold within a second',
  async (...[name, fault, repair]) => {
    const { redis } = fleet
    const crowd = await Promise.all(Array.from({ length: 8 }, customer))
    const during = await fleet.load(
      crowd,
      CROWD_PER_SECOND,
      troubled(4_000, 500, () => fault(redis)),
    )
    expect(statuses(during)).toEqual({ 200: during.length })
    const flooder = await customer()
    const unlimited = await fleet.load([flooder], FLOOD_PER_SECOND, lasting(2_000))
    expect(statuses(unlimited)).toEqual({ 200: unlimited.length })
    const { admitted, asked, last } = await afterRepair(flooder, () => repair(redis))
    console.log(`${name}: from a second after it is back, ${admitted} of ${asked} admitted in 4 s`)
    expect(admitted).toBeLessThan((BURST + PER_SECOND * 4) * (1 + TOLERANCE))
    expect(last).toContain(429)
  },
  60_000,
)

/** Counts the admitted requests of a flood from a second after the repair. */
async function afterRepair(flooder: TestKey, repair: () => Promise<void>) {
  let backAtMs = Number.POSITIVE_INFINITY
  void repair().then(() => {
    backAtMs = systemClock.monotonicMs()
  })
  const flood = await fleet.load([flooder], FLOOD_PER_SECOND, () => systemClock.monotonicMs() > backAtMs + 5_000)
  const later = flood.filter(({ atMs }) => atMs > backAtMs + 1_000)
  return {
    admitted: later.filter(({ status }) => status === 200).length,
    asked: later.length,
    last: later.slice(-4).map(({ status }) => status),
  }
}
