import { expect, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import { bucketLevelOf, intervalMicros, type RateLimit, takeToken } from './bucket.ts'

const limits = fc.record({ perSecond: fc.integer({ min: 1, max: 10_000 }), burst: fc.integer({ min: 1, max: 300 }) })
/** Pauses between requests, from none to longer than any bucket takes to fill, most of them short. */
const pauses = fc.array(
  fc.oneof(
    fc.constant(0),
    fc.integer({ min: 0, max: 2_000 }),
    fc.integer({ min: 0, max: 1_000_000 }),
    fc.integer({ min: 0, max: 400_000_000 }),
  ),
  { maxLength: 400 },
)

/** Sends requests after these pauses; each request's instant, and whether it was admitted. */
function send(limit: RateLimit, between: readonly number[]) {
  let nowMicros = 1_000_000
  let fullAtMicros = 0
  return between.map((pause) => {
    nowMicros += pause
    const taken = takeToken(limit, fullAtMicros, nowMicros)
    fullAtMicros = taken.fullAtMicros
    return { nowMicros, ...taken }
  })
}

test('a key that was idle may send all of the burst at once, then as many as come back (K3)', () => {
  const limit = { perSecond: 100, burst: 200 }
  const atOnce = send(limit, new Array(250).fill(0))
  expect(atOnce.filter(({ admitted }) => admitted)).toHaveLength(200)
  const second = send(limit, [...new Array(250).fill(0), ...new Array(1_000).fill(1_000)])
  expect(second.filter(({ admitted }) => admitted)).toHaveLength(300)
})

test('it decides as a bucket of tokens that is counted', () => {
  fc.assert(
    fc.property(limits, pauses, (limit, between) => {
      const interval = intervalMicros(limit)
      let level = interval * limit.burst
      let previousMicros = 1_000_000
      for (const { nowMicros, admitted } of send(limit, between)) {
        level = Math.min(interval * limit.burst, level + nowMicros - previousMicros)
        previousMicros = nowMicros
        expect(admitted).toBe(level >= interval)
        if (admitted) level -= interval
      }
    }),
  )
})

test('in no stretch of time are more admitted than the burst and what came back meanwhile', () => {
  fc.assert(
    fc.property(limits, pauses, (limit, between) => {
      const admitted = send(limit, between).filter((request) => request.admitted)
      for (const [first, from] of admitted.entries()) {
        const to = admitted.at(-1)?.nowMicros ?? 0
        const cameBack = Math.floor((to - from.nowMicros) / intervalMicros(limit))
        expect(admitted.length - first).toBeLessThanOrEqual(limit.burst + cameBack)
      }
    }),
  )
})

test('the level that a client is told comes true: so many are left, then one after the wait, and all after the reset', () => {
  fc.assert(
    fc.property(limits, pauses, (limit, between) => {
      const last = send(limit, between).at(-1)
      if (last === undefined) return
      const { nowMicros, fullAtMicros } = last
      const { remaining, resetSeconds, retryAfterSeconds } = bucketLevelOf(limit, fullAtMicros, nowMicros)
      let left = fullAtMicros
      for (let taken = 0; taken < remaining; taken += 1) left = takeToken(limit, left, nowMicros).fullAtMicros
      expect(bucketLevelOf(limit, left, nowMicros).remaining).toBe(0)
      expect(takeToken(limit, left, nowMicros).admitted).toBe(false)
      expect(takeToken(limit, fullAtMicros, nowMicros + retryAfterSeconds * 1_000_000).admitted).toBe(true)
      expect(bucketLevelOf(limit, fullAtMicros, nowMicros + resetSeconds * 1_000_000).remaining).toBe(limit.burst)
    }),
  )
})

test('after the limit was lowered or a clock set back, a bucket is empty at worst', () => {
  fc.assert(
    fc.property(limits, fc.integer({ min: 0, max: 2 ** 50 }), (limit, fullAtMicros) => {
      const capacity = intervalMicros(limit) * limit.burst
      const { admitted, fullAtMicros: then } = takeToken(limit, fullAtMicros, 1_000)
      expect(admitted).toBe(fullAtMicros <= 1_000 + capacity - intervalMicros(limit))
      expect(then).toBeLessThanOrEqual(1_000 + capacity)
      expect(takeToken(limit, then, 1_000 + intervalMicros(limit)).admitted).toBe(true)
    }),
  )
})

const rows: [RateLimit, missingMicros: number, remaining: number, resetSeconds: number, retryAfterSeconds: number][] = [
  [{ perSecond: 100, burst: 200 }, 0, 200, 0, 1],
  [{ perSecond: 100, burst: 200 }, -5_000_000, 200, 0, 1],
  [{ perSecond: 100, burst: 200 }, 1, 199, 1, 1],
  [{ perSecond: 100, burst: 200 }, 10_000, 199, 1, 1],
  [{ perSecond: 100, burst: 200 }, 10_001, 198, 1, 1],
  [{ perSecond: 100, burst: 200 }, 2_000_000, 0, 2, 1],
  [{ perSecond: 15, burst: 30 }, 2_000_010, 0, 3, 1],
  [{ perSecond: 1, burst: 5 }, 5_000_000, 0, 5, 1],
  [{ perSecond: 1, burst: 5 }, 5_000_001, 0, 6, 2],
]
test.each(rows)(
  '%j, %d us before it is full: %d left, full in %d s, a token in %d s',
  (limit, missing, left, reset, wait) => {
    const { remaining, resetSeconds, retryAfterSeconds } = bucketLevelOf(limit, 9_000_000 + missing, 9_000_000)
    expect([remaining, resetSeconds, retryAfterSeconds]).toEqual([left, reset, wait])
  },
)
