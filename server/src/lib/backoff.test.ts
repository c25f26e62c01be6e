import { expect, test } from 'bun:test'
import { doubledMs, nextAttemptMs } from './backoff.ts'

test('a wait doubles with each failure, up to the most, however many there are', () => {
  expect([0, 1, 2, 5, 6, 10_000].map((failures) => doubledMs(25, 1_000, failures))).toEqual([
    25, 50, 100, 800, 1_000, 1_000,
  ])
})

test('an attempt follows by its schedule, a part of the delay later or earlier, and none after the last', () => {
  const schedule = [1_000, 60_000]
  expect([
    nextAttemptMs(schedule, 1, 5, 0),
    nextAttemptMs(schedule, 2, 0, 0.1),
    nextAttemptMs(schedule, 2, 0, -0.1),
  ]).toEqual([1_005, 66_000, 54_000])
  expect(nextAttemptMs(schedule, 3, 0, 0)).toBeNull()
})
