import { expect, test } from 'bun:test'
import type { LlamaModel } from 'node-llama-cpp'
import { createEmbedder } from './embedder.ts'
import { PoolFull } from './pool.ts'

const live = () => new AbortController().signal

/** An embedder whose model answers each input when the test says so. */
function open(maximumWaiting: number) {
  const asked: { readonly input: string; answer(): void }[] = []
  const context = {
    calculateInputLength: (input: string) => input.length,
    getEmbeddingFor: (input: string) =>
      new Promise((resolve) => asked.push({ input, answer: () => resolve({ vector: [3, 4] }) })),
  }
  const model = { createEmbeddingContext: () => Promise.resolve(context) }
  const embedder = createEmbedder(model as unknown as LlamaModel, { contextTokens: 100, threads: 1, maximumWaiting })
  /** Answers the next input; says which it was. */
  const answer = async (): Promise<string | undefined> => {
    for (let turn = 0; turn < 10 && asked.length === 0; turn += 1) await Promise.resolve()
    const next = asked.shift()
    next?.answer()
    return next?.input
  }
  return { embedder, answer }
}

test('calls are served one after the other, in order, with vectors of length one', async () => {
  const { embedder, answer } = open(1)
  const first = embedder.embed(['a', 'bb'], live())
  const second = embedder.embed(['c'], live())
  expect([await answer(), await answer()]).toEqual(['a', 'bb'])
  const { values, dimensions, promptTokens } = await first
  expect([[...values], dimensions, promptTokens]).toEqual([Array.from(Float32Array.of(0.6, 0.8, 0.6, 0.8)), 2, 3])
  expect(await answer()).toBe('c')
  await second
})

test('many inputs are tokenized in slices: others get their turn, and who left is not tokenized for any more', async () => {
  let tokenized = 0
  const context = {
    calculateInputLength: () => {
      tokenized += 1
      return 1
    },
    getEmbeddingFor: () => Promise.reject(new Error('nobody waits for it')),
  }
  const model = { createEmbeddingContext: () => Promise.resolve(context) } as unknown as LlamaModel
  const embedder = createEmbedder(model, { contextTokens: 1_000, threads: 1, maximumWaiting: 1 })
  const leaver = new AbortController()
  const call = embedder.embed(
    Array.from({ length: 2_000 }, () => 'x'.repeat(4_096)),
    leaver.signal,
  )
  while (tokenized === 0) await Promise.resolve()
  leaver.abort('left')
  expect(await call.catch((error: unknown) => error)).toBe('left')
  expect(tokenized).toBe(8)
})

test('a caller that hangs up while waiting gives up its place at once', async () => {
  const { embedder, answer } = open(1)
  const first = embedder.embed(['a'], live())
  const leaver = new AbortController()
  const left = embedder.embed(['b'], leaver.signal)
  await expect(embedder.embed(['c'], live())).rejects.toBeInstanceOf(PoolFull)
  leaver.abort('left')
  await expect(left).rejects.toBe('left')
  const next = embedder.embed(['d'], live())
  expect(await answer()).toBe('a')
  await first
  expect(await answer()).toBe('d')
  await next
})
