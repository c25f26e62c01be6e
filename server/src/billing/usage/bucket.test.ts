import { describe, expect, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import { DAY_MS, HOUR_MS } from '../../lib/time.ts'
import { BUCKETS, bucketEnd, bucketStart, centsOf, defaultBucket, spanOf, windowOf } from './bucket.ts'

const instant = fc.integer({ min: 0, max: Date.UTC(2100, 0) })

describe('buckets', () => {
  test('are UTC, weeks begin on Monday, months have their own lengths', () => {
    const at = Date.UTC(2024, 1, 29, 13, 59, 59, 999)
    expect(bucketStart('hour', at)).toBe(Date.UTC(2024, 1, 29, 13))
    expect(bucketStart('day', at)).toBe(Date.UTC(2024, 1, 29))
    expect(bucketStart('week', at)).toBe(Date.UTC(2024, 1, 26))
    expect(new Date(bucketStart('week', at)).getUTCDay()).toBe(1)
    expect(bucketStart('month', at)).toBe(Date.UTC(2024, 1))
    expect(bucketEnd('month', at)).toBe(Date.UTC(2024, 2))
    expect(bucketEnd('week', at)).toBe(Date.UTC(2024, 2, 4))
  })

  test('cover time without gaps: each instant is in the bucket that it names, and the next begins where one ends', () => {
    fc.assert(
      fc.property(fc.constantFrom(...BUCKETS), instant, (bucket, at) => {
        const start = bucketStart(bucket, at)
        const end = bucketEnd(bucket, at)
        expect(start <= at && at < end).toBe(true)
        expect(bucketStart(bucket, start)).toBe(start)
        expect(bucketStart(bucket, end)).toBe(end)
        expect(bucketStart(bucket, end - 1)).toBe(start)
      }),
    )
  })
})

describe('a window', () => {
  const now = Date.UTC(2026, 4, 5, 6, 7)
  test.each([
    ['neither end: the last 30 days', null, null, { startMs: now - 30 * DAY_MS, endMs: now }],
    ['no end: up to now', 5, null, { startMs: 5, endMs: now }],
    ['no start: 30 days before the end', null, 40 * DAY_MS, { startMs: 10 * DAY_MS, endMs: 40 * DAY_MS }],
    ['both', 5, 6, { startMs: 5, endMs: 6 }],
    ['start at end: nothing', 5, 5, null],
    ['start after end: nothing', 6, 5, null],
    ['start in the future, no end: nothing', now + 1, null, null],
  ] as const)('%s', (_name, start, end, expected) => expect(windowOf(start, end, now)).toEqual(expected))

  test.each([
    [48 * HOUR_MS, 'hour'],
    [48 * HOUR_MS + 1, 'day'],
    [62 * DAY_MS, 'day'],
    [62 * DAY_MS + 1, 'week'],
    [366 * DAY_MS, 'week'],
    [366 * DAY_MS + 1, 'month'],
  ] as const)('of %d ms has the default bucket %s', (length, bucket) => {
    expect(defaultBucket({ startMs: 0, endMs: length })).toBe(bucket)
  })

  test('is taken apart into pieces that are whole units, meet, and cover it', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...BUCKETS),
        instant,
        fc.integer({ min: 1, max: 500 * DAY_MS }),
        instant,
        (bucket, startMs, lengthMs, nowMs) => {
          const endMs = startMs + lengthMs
          const span = spanOf(bucket, { startMs, endMs }, nowMs)
          for (const unit of [span.startHourMs, span.firstDayMs, span.lastDayMs, span.endHourMs]) {
            expect(unit % HOUR_MS).toBe(0)
          }
          if (span.firstDayMs < span.lastDayMs)
            expect([span.firstDayMs % DAY_MS, span.lastDayMs % DAY_MS]).toEqual([0, 0])
          expect(span.startHourMs <= span.firstDayMs && span.firstDayMs <= span.lastDayMs).toBe(true)
          expect(span.lastDayMs <= span.endHourMs).toBe(true)
          expect(startMs - span.startHourMs).toBeLessThan(HOUR_MS)
          expect(span.endMs).toBeGreaterThanOrEqual(endMs)
          if (endMs < nowMs) expect(span.endMs).toBe(endMs)
          expect(span.endMs - span.endHourMs).toBeLessThan(HOUR_MS)
        },
      ),
    )
  })
})

test('cents of buckets add up to the cents of the whole, whatever the buckets are', () => {
  fc.assert(
    fc.property(
      fc.bigInt({ min: 0n, max: 10n ** 15n }),
      fc.array(fc.bigInt({ min: 0n, max: 10n ** 9n }), { maxLength: 50 }),
      (before, amounts) => {
        const costs = centsOf(
          before,
          amounts.map((microcents, startMs) => ({ startMs, microcents })),
        )
        const whole = amounts.reduce((sum, amount) => sum + amount, before) / 1_000_000n - before / 1_000_000n
        expect(costs.reduce((sum, { cents }) => sum + cents, 0)).toBe(Number(whole))
        for (const { cents } of costs) expect(cents).toBeGreaterThanOrEqual(0)
      },
    ),
  )
})
