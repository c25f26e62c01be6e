import { expect, test } from 'bun:test'
import { believed, needsCheck } from './believable.ts'

test.each([
  [0, 0, false],
  [0, 1, true],
  [1, 8, false],
  [1, 9, true],
  [500, 4_000, false],
  [500, 4_001, true],
  [Number.MAX_SAFE_INTEGER, 8 << 20, false],
])('a report of %p tokens for %p bytes is checked: %p', (reported, bytes, isChecked) => {
  expect(needsCheck(reported, bytes)).toBe(isChecked)
})

test.each([
  [0, 0, 0],
  [0, 1, 1],
  [1, 2, 1],
  [1, 3, 3],
  [249, 499, 499],
  [250, 500, 250],
  [300, 500, 300],
  [501, 500, 501],
])('of a report of %p tokens and a count of %p, %p are charged', (reported, counted, charged) => {
  expect(believed(reported, counted)).toBe(charged)
})
