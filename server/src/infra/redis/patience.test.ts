import { expect, test } from 'bun:test'
import { Patience } from './patience.ts'

function after(...roundTripsMs: readonly number[]): number {
  const patience = new Patience()
  for (const each of roundTripsMs) patience.note(each)
  return patience.limitMs
}
const many = (roundTripMs: number) => new Array<number>(100).fill(roundTripMs)

test.each<[string, readonly number[], least: number, most: number]>([
  ['nothing is known', [], 20, 20],
  ['the first is three times itself', [3], 9, 9],
  ['a store nearby is waited for 2 ms', many(0.2), 2, 2],
  ['a store farther away a little more than its distance', many(5), 5, 5.1],
  ['one that varies, more', [...many(2), 6, 2, 6, 2, 6], 8, 15],
  ['a single late answer is soon forgotten', [...many(0.2), 200, ...many(0.2)], 2, 2],
  ['never more than 20 ms', many(500), 20, 20],
])('%s', (_, roundTripsMs, least, most) => {
  const limitMs = after(...roundTripsMs)
  expect(limitMs).toBeGreaterThanOrEqual(least)
  expect(limitMs).toBeLessThanOrEqual(most)
})
