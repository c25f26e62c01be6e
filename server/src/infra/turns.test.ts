import { expect, test } from 'bun:test'
import { nextTurn } from '../lib/time.ts'
import { createBoundedTurns, createShortTurns, mapInTurns } from './turns.ts'

/** A clock that goes on by a quarter of a millisecond with each item, and notes what is waited for. */
function slowWork() {
  let nowMs = 0
  const make = (item: string, index: number) => {
    nowMs += 0.25
    return `${item}${index}`
  }
  const rests: number[] = []
  const after = (delayMs: number, callback: () => void) => {
    rests.push(delayMs)
    setImmediate(callback)
    return () => {}
  }
  return { make, rests, timers: { monotonicMs: () => nowMs, after } }
}

test('things are made in order, and others are served for 4 ms after every one of it', async () => {
  const { make, rests, timers } = slowWork()
  let made = 0
  const seen: number[] = []
  const other = () => {
    seen.push(made)
    if (made < 10) setImmediate(other)
  }
  setImmediate(other)
  const mapping = mapInTurns(
    Array<string>(10).fill('x'),
    (item, index) => {
      made += 1
      return make(item, index)
    },
    timers,
  )
  expect(await mapping).toEqual(['x0', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7', 'x8', 'x9'])
  expect(seen).toEqual([4, 8])
  expect(rests).toEqual([4, 4])
})

test('what one item throws ends the work', async () => {
  const { timers } = slowWork()
  let made = 0
  const failing = mapInTurns(
    ['a', 'b', 'c'],
    (item) => {
      made += 1
      if (item === 'b') throw new Error('b is wrong')
    },
    timers,
  )
  expect(failing).rejects.toThrow('b is wrong')
  expect(made).toBe(2)
})

test('works that come at once begin in order, a millisecond of them at a time, and rest for 8 ms between', async () => {
  let nowMs = 0
  const begun: number[] = []
  const rests: unknown[] = []
  const turns = createShortTurns({
    monotonicMs: () => nowMs,
    after(delayMs, callback) {
      rests.push({ delayMs, begun: begun.length })
      setImmediate(callback)
      return () => {}
    },
  })
  const works = Array.from({ length: 7 }, async (_, index) => {
    await turns.take()
    begun.push(index)
    nowMs += 0.5
  })
  await Promise.all(works)
  expect(begun).toEqual([0, 1, 2, 3, 4, 5, 6])
  expect(rests).toEqual([2, 4, 6].map((count) => ({ delayMs: 8, begun: count })))
  // Nobody waits any more: the next one begins without a rest.
  await turns.take()
  expect(rests).toHaveLength(3)
})

test('of works that come at once, at most so many begin in a turn, in their order', async () => {
  const turns = createBoundedTurns(3)
  const begun: number[] = []
  const begin = async (index: number) => {
    const turn = turns.take()
    if (turn !== null) await turn
    begun.push(index)
  }
  const works = Array.from({ length: 7 }, (_, index) => begin(index))
  const seen: number[] = [begun.length]
  const other = () => {
    seen.push(begun.length)
    if (begun.length < 8) setImmediate(other)
  }
  setImmediate(other)
  await nextTurn()
  // One that comes late stands behind those that wait, and none of them begins twice.
  works.push(begin(7))
  await Promise.all(works)
  await nextTurn()
  expect(begun).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  expect(seen).toEqual([3, 6, 8])
  expect(turns.take()).toBeNull()
})
