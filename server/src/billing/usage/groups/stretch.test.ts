import { describe, expect, test } from 'bun:test'
import { fc } from '../../../../test/properties.ts'
import { DAY_MS, HOUR_MS } from '../../../lib/time.ts'
import { BUCKETS, bucketStart } from '../bucket.ts'
import { stretchesOf } from './stretch.ts'
import { LONG_BLOCK_HOURS, PART_HOURS, type UsageBlock } from './sums/block.ts'

const FIRST_MS = Date.UTC(2030, 0, 1)

/** Any blocks around some months, of which some hold, and some days go on. */
const anyBlocks = fc
  .array(
    fc.record({
      hours: fc.constantFrom(24, 24, 24, ...LONG_BLOCK_HOURS),
      atMs: fc.integer({ min: 0, max: 130 }).map((day) => FIRST_MS + day * DAY_MS),
      summedHours: fc.option(fc.integer({ min: 1, max: 24 })),
    }),
    { maxLength: 150 },
  )
  .map((made) =>
    made.map(({ hours, atMs, summedHours }): UsageBlock => {
      const startMs = atMs - (atMs % (hours * HOUR_MS))
      const summed = hours === 24 ? summedHours : summedHours === null ? null : hours
      return { hours, startMs, summedUntilMs: summed === null ? null : startMs + summed * HOUR_MS }
    }),
  )
  .map((blocks) => [...new Map(blocks.map((block) => [`${block.hours} ${block.startMs}`, block])).values()])

/** The hours that the rows of a stretch are the sums of, by the statement's rule: rows that begin in it. */
function hoursRead(
  stretch: { hours: number; startMs: number; endMs: number },
  blocks: readonly UsageBlock[],
): number[] {
  const rows: { startMs: number; endMs: number }[] = []
  const { hours, startMs, endMs } = stretch
  if (hours === 1 || hours === PART_HOURS)
    for (let atMs = startMs; atMs < endMs; atMs += hours * HOUR_MS)
      rows.push({ startMs: atMs, endMs: atMs + hours * HOUR_MS })
  else
    for (const block of blocks.filter(
      (each) => each.hours === hours && each.startMs >= startMs && each.startMs < endMs,
    ))
      rows.push({ startMs: block.startMs, endMs: block.summedUntilMs ?? Number.NaN })
  return rows.flatMap((row) =>
    Array.from({ length: (row.endMs - row.startMs) / HOUR_MS }, (_, hour) => row.startMs + hour * HOUR_MS),
  )
}

describe('the stretches of a window', () => {
  test('have each of its hours once, in one period each, from sums that hold', () => {
    const hour = fc.integer({ min: 0, max: 130 * 24 }).map((hours) => FIRST_MS + hours * HOUR_MS)
    const period = fc.constantFrom(null, ...BUCKETS)
    fc.assert(
      fc.property(hour, hour, period, anyBlocks, (one, two, bucket, blocks) => {
        const window = { startMs: Math.min(one, two), endMs: Math.max(one, two) + HOUR_MS }
        const stretches = stretchesOf(window, bucket, blocks)
        const read = stretches.flatMap((stretch) => hoursRead(stretch, blocks)).sort((a, b) => a - b)
        const length = (window.endMs - window.startMs) / HOUR_MS
        expect(read).toEqual(Array.from({ length }, (_, index) => window.startMs + index * HOUR_MS))
        for (const { startMs, endMs, periodMs } of stretches)
          expect([
            bucket === null ? null : bucketStart(bucket, startMs),
            bucket === null ? null : bucketStart(bucket, endMs - 1),
          ]).toEqual([periodMs, periodMs])
      }),
      { numRuns: 300 },
    )
  })

  test('are few: of 30 days and a part of today a pair of model and key has from 7 to 11 rows, the hours since the last sum among them', () => {
    const counts = Array.from({ length: 64 }, (_, day) => rowsOf30Days(FIRST_MS + day * DAY_MS))
    expect([Math.min(...counts), Math.max(...counts)]).toEqual([7, 11])
  })
})

/** The rows of a pair in 30 days and 15 hours of the next, of which 13 are summed. */
function rowsOf30Days(startMs: number): number {
  const todayMs = startMs + 30 * DAY_MS
  const blocks: UsageBlock[] = [{ hours: 24, startMs: todayMs, summedUntilMs: todayMs + 13 * HOUR_MS }]
  for (const hours of [24, ...LONG_BLOCK_HOURS]) {
    const lengthMs = hours * HOUR_MS
    for (let atMs = Math.ceil(startMs / lengthMs) * lengthMs; atMs + lengthMs <= todayMs; atMs += lengthMs)
      blocks.push({ hours, startMs: atMs, summedUntilMs: atMs + lengthMs })
  }
  const stretches = stretchesOf({ startMs, endMs: todayMs + 15 * HOUR_MS }, null, blocks)
  return stretches.reduce((sum, each) => sum + Math.ceil((each.endMs - each.startMs) / (each.hours * HOUR_MS)), 0)
}
