import { expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { type FoundKey, LookUps } from './lookUps.ts'

/** Look-ups whose queries are answered one at a time, by the test. */
function heldLookUps() {
  const batches: (readonly string[])[] = []
  const answers: (() => void)[] = []
  const reported: unknown[] = []
  const lookUps = new LookUps<string>({
    clock: new TurnedClock(),
    report: (error) => reported.push(error),
    find(keyHashes) {
      batches.push(keyHashes)
      const rows = new Map(keyHashes.filter((hash) => !hash.startsWith('no')).map((hash) => [hash, `row of ${hash}`]))
      return new Promise((resolve) => answers.push(() => resolve(rows)))
    },
  })
  return {
    lookUps,
    batches,
    /** Answers the query that was sent first, and lets what follows from it happen. */
    async answer() {
      answers.shift()?.()
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

/** Fills both places for queries, so that everything behind them waits. */
function occupy({ lookUps }: ReturnType<typeof heldLookUps>): void {
  void lookUps.ask('early', 'no early 1')
  void lookUps.ask('early', 'no early 2')
}

test('a line with one key waits for one key of each other line, however many those have', async () => {
  const held = heldLookUps()
  occupy(held)
  const flood = Array.from({ length: 900 }, (_, index) => held.lookUps.ask('flood', `no ${index}`))
  const single = held.lookUps.ask('single', 'good')
  await held.answer()
  expect(held.batches[2]).toHaveLength(500)
  expect(held.batches[2]?.slice(0, 3)).toEqual(['no 0', 'good', 'no 1'])
  await held.answer()
  await held.answer()
  expect(await single).toBe('row of good')
  await held.answer()
  expect(new Set(await Promise.all(flood))).toEqual(new Set<FoundKey<string>>(['unknown']))
  expect(held.batches).toHaveLength(4)
  expect(held.lookUps.size).toBe(0)
})

test('1,000 keys wait in a line at most; callers that ask for a key that waits in it share its place', async () => {
  const held = heldLookUps()
  occupy(held)
  const waiting = Array.from({ length: 1_000 }, (_, index) => held.lookUps.ask('a', `no ${index}`))
  expect(await held.lookUps.ask('a', 'good')).toBe('unavailable')
  expect(held.lookUps.ask('a', 'no 7')).toBe(waiting[7] as Promise<FoundKey<string>>)
  const elsewhere = held.lookUps.ask('b', 'good')
  expect(held.lookUps.size).toBe(1_001)
  await held.answer()
  await held.answer()
  await held.answer()
  expect(await elsewhere).toBe('row of good')
})

test('when 20,000 wait, the longest line gives a place up to a shorter one, and has none for itself', async () => {
  const held = heldLookUps()
  occupy(held)
  const first = held.lookUps.ask('long', 'no first')
  for (let index = 1; index < 1_000; index += 1) void held.lookUps.ask('long', `no ${index}`)
  for (let index = 0; index < 19_000; index += 1) void held.lookUps.ask(`line ${index % 38}`, `no ${index}`)
  expect(held.lookUps.size).toBe(20_000)
  const fresh = held.lookUps.ask('fresh', 'good')
  expect(await first).toBe('unavailable')
  expect(await held.lookUps.ask('long', 'no more')).toBe('unavailable')
  expect(held.lookUps.size).toBe(20_000)
  await held.answer()
  await held.answer()
  await held.answer()
  expect(await fresh).toBe('row of good')
})

test('a query that fails is 503 for its own keys alone', async () => {
  const reported: unknown[] = []
  let queries = 0
  const lookUps = new LookUps<string>({
    clock: new TurnedClock(),
    report: (error) => reported.push(error),
    find: async (keyHashes) => {
      queries += 1
      if (queries === 1) throw new Error('gone')
      return new Map(keyHashes.map((hash) => [hash, hash]))
    },
  })
  expect(await Promise.all([lookUps.ask('a', 'x'), lookUps.ask('a', 'y')])).toEqual(['unavailable', 'y'])
  expect(reported).toHaveLength(1)
})
