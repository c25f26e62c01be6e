import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { createUnknownKeys } from './unknown.ts'

test('60 unknown keys in any 60 seconds are counted, the next waits exactly until the first of them is a minute old', () => {
  const unknown = createUnknownKeys()
  for (let index = 0; index < 60; index += 1) {
    expect(unknown.blockedSeconds('a', index * 100)).toBeUndefined()
    unknown.count('a', index * 100)
  }
  expect(unknown.blockedSeconds('a', 6_000)).toBe(54)
  expect(unknown.blockedSeconds('a', 59_999)).toBe(1)
  expect(unknown.blockedSeconds('a', 60_000)).toBeUndefined()
  expect(unknown.blockedSeconds('b', 6_000)).toBeUndefined()
})

test('no pattern of arrivals gets more than 60 through in any window of 60 seconds', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 3_000 }), { minLength: 100, maxLength: 400 }), (gaps) => {
      const unknown = createUnknownKeys()
      const passed: number[] = []
      let nowMs = 0
      for (const gapMs of gaps) {
        nowMs += gapMs
        if (unknown.blockedSeconds('a', nowMs) !== undefined) continue
        unknown.count('a', nowMs)
        passed.push(nowMs)
      }
      passed.forEach((atMs, index) => {
        const sixtyEarlier = passed[index - 60]
        if (sixtyEarlier !== undefined) expect(atMs - sixtyEarlier).toBeGreaterThanOrEqual(60_000)
      })
    }),
    { numRuns: 50 },
  )
})

test('a flood of addresses is forgotten oldest first and never kept beyond its bound', () => {
  const unknown = createUnknownKeys()
  for (let index = 0; index < 60; index += 1) unknown.count('first', 0)
  for (let index = 0; index < 9_999; index += 1) unknown.count(`other ${index}`, 0)
  expect(unknown.blockedSeconds('first', 0)).toBe(60)
  unknown.count('one more', 0)
  expect(unknown.blockedSeconds('first', 0)).toBeUndefined()
})
