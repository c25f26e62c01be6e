import { expect, test } from 'bun:test'
import { createCountTurns } from './countTurns.ts'

/** Counts a token a character, each batch when the test lets it. */
function openHeld() {
  const batches: string[] = []
  const held: { resolve(tokens: number[]): void; reject(error: Error): void; tokens: number[] }[] = []
  const turns = createCountTurns((slices) => {
    const letters = slices.map((pieces) => pieces.join(''))
    batches.push(letters.map(([letter]) => letter).join(''))
    return new Promise((resolve, reject) => held.push({ resolve, reject, tokens: letters.map((each) => each.length) }))
  })
  const settled = () => new Promise((resolve) => setImmediate(resolve))
  return {
    turns,
    /** The organizations of each batch that was begun, by the letter of their texts. */
    batches,
    async finish() {
      const batch = held.shift()
      batch?.resolve(batch.tokens)
      await settled()
    },
    async fail() {
      held.shift()?.reject(new Error('the thread failed'))
      await settled()
    },
  }
}

/** A count that tells what it came to, once it did. */
function ask({ turns }: ReturnType<typeof openHeld>, letter: string, characters: number, tokensMost?: number) {
  const asked = { tokens: null as number | null }
  void turns.count([letter.repeat(characters)], letter, tokensMost).then((tokens) => {
    asked.tokens = tokens
  })
  return asked
}

test('a count waits for one batch of another organization, however long its texts are and however many', async () => {
  const stage = openHeld()
  const long = [ask(stage, 'a', 1_000_000), ask(stage, 'a', 1_000_000)]
  const short = ask(stage, 'b', 7)
  await stage.finish()
  expect(stage.batches).toEqual(['aaaaaaaa', 'abaaaaaaa'])
  expect(short.tokens).toBeNull()
  await stage.finish()
  expect(short.tokens).toBe(7)
  expect(stage.turns.waiting).toBe(2)
  for (let batch = 0; batch < 70; batch++) await stage.finish()
  expect(long).toEqual([{ tokens: 1_000_000 }, { tokens: 1_000_000 }])
  expect(stage.turns.waiting).toBe(0)
})

test('short counts share a batch, and organizations with long texts each have their part of it', async () => {
  const stage = openHeld()
  const counts = [ask(stage, 'x', 1), ...[...'abc'].map((letter) => ask(stage, letter, 40_000)), ask(stage, 'd', 5)]
  await stage.finish()
  expect(stage.batches).toEqual(['x', 'abcdabcab'])
  await stage.finish()
  expect(counts.map(({ tokens }) => tokens)).toEqual([1, null, null, null, 5])
})

test('a text is counted no further than to the most that is asked for', async () => {
  const stage = openHeld()
  const bounded = ask(stage, 'a', 1_000_000, 40_000)
  const next = ask(stage, 'a', 3)
  await stage.finish()
  expect(bounded.tokens).toBeNull()
  await stage.finish()
  expect(bounded.tokens).toBeGreaterThanOrEqual(40_000)
  expect(bounded.tokens).toBeLessThan(100_000)
  await stage.finish()
  expect(next.tokens).toBe(3)
  expect(stage.batches).toHaveLength(3)
})

test('when a batch fails, its counts follow from the length, and the others go on', async () => {
  const stage = openHeld()
  const failed = ask(stage, 'a', 1_000_000)
  const good = ask(stage, 'b', 7)
  await stage.fail()
  expect([failed.tokens, good.tokens]).toEqual([250_000, null])
  await stage.finish()
  expect(good.tokens).toBe(7)
  expect(stage.batches).toEqual(['aaaaaaaa', 'b'])
})

test('when it gives up, every count follows from the length, and later ones are counted', async () => {
  const stage = openHeld()
  const given = [ask(stage, 'a', 1_000_000), ask(stage, 'a', 8), ask(stage, 'b', 4)]
  stage.turns.giveUp()
  await stage.fail()
  expect(given.map(({ tokens }) => tokens)).toEqual([250_000, 2, 1])
  const later = ask(stage, 'c', 3)
  await stage.finish()
  expect(later.tokens).toBe(3)
  expect(stage.batches).toEqual(['aaaaaaaa', 'c'])
})
