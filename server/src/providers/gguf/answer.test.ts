/** Faults that a real engine does not show on demand: it fails, hangs, outruns its reader. */
import { afterEach, expect, test } from 'bun:test'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { LlamaContextSequence } from 'node-llama-cpp'
import { TurnedClock } from '../../../test/clock.ts'
import { ask, readAnswer, untilStats } from '../../../test/ggufAnswer.ts'
import type { Engine, GenerateOptions, Piece } from './engine.ts'
import { Pool } from './pool.ts'
import { createChatServer } from './serve.ts'

let server: Server

afterEach(() => {
  server.closeAllConnections()
  server.close()
})

/** A server over an engine that generates as told, with one sequence and nowhere to wait. */
async function serve(
  generate: (generation: GenerateOptions) => Promise<void>,
  embed: Engine['embedder']['embed'] = () => Promise.reject(new Error('there are no embeddings here')),
) {
  const clock = new TurnedClock()
  const lines: string[] = []
  const state = { stuck: 0 }
  const engine: Engine = {
    model: 'fake',
    contextTokens: 2048,
    device: 'cpu',
    sequences: new Pool([{} as LlamaContextSequence], 0),
    embedder: { embed },
    render: () => ({ history: [], tokens: [] }),
    roomTokens: () => 2000,
    async generate(_, generation) {
      await generate(generation)
      return { reason: 'stop', usage: { promptTokens: 1, cachedPromptTokens: 0, completionTokens: 1 } }
    },
  }
  const onStuck = () => {
    state.stuck += 1
  }
  server = createChatServer({ engine, bearer: 'b', clock, log: (line) => lines.push(line), onStuck })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  return { address: { baseUrl, bearer: 'b' }, clock, lines, state }
}

const piece = (text: string, kind: Piece['kind'] = 'text'): Piece => ({
  kind,
  text,
  usage: { promptTokens: 1, cachedPromptTokens: 0, completionTokens: 1 },
})

test('an engine that fails before the first token is answered with a status, in words of our own', async () => {
  const { address, lines } = await serve(() => Promise.reject(new Error('out of memory')))
  const response = await ask(address)
  expect(response.status).toBe(500)
  expect(await response.text()).not.toContain('memory')
  expect(lines).toEqual(['generating failed: out of memory'])
})

test('an engine that fails in mid-answer ends the stream with an error and without [DONE]', async () => {
  const { address } = await serve(async ({ onPiece }) => {
    onPiece(piece('a'))
    throw new Error('out of memory')
  })
  const { chunks, isDone } = await readAnswer(await ask(address))
  expect(chunks.slice(0, 2).map((chunk) => chunk.choices?.[0]?.delta.content)).toEqual(['', 'a'])
  expect(chunks.at(-1)).toMatchObject({ error: { code: 'internal_error' } })
  expect(isDone).toBe(false)
})

test("a model's thinking is told apart from its answer", async () => {
  const { address } = await serve(async ({ onPiece }) => {
    onPiece(piece('hm', 'reasoning'))
    onPiece(piece('yes'))
  })
  const { chunks, text } = await readAnswer(await ask(address))
  expect(chunks[1]?.choices?.[0]?.delta).toEqual({ reasoning_content: 'hm' } as never)
  expect(text).toBe('yes')
})

test('an answer without a token still begins with the role and ends with the reason', async () => {
  const { address } = await serve(async () => {})
  const { chunks, isDone } = await readAnswer(await ask(address))
  expect(chunks.map((chunk) => chunk.choices?.[0]?.finish_reason ?? null)).toEqual([null, 'stop', null])
  expect(isDone).toBe(true)
})

test('a reader who does not read is cut off, so that memory stays bounded', async () => {
  let written = 0
  const { address } = await serve(async ({ onPiece, signal }) => {
    while (!signal.aborted && written < 4_000) {
      onPiece(piece('x'.repeat(10_000)))
      written += 1
      await new Promise((resolve) => setImmediate(resolve))
    }
    signal.throwIfAborted()
  })
  const response = await ask(address)
  const { cancelled } = await untilStats(address, (stats) => stats.active === 0)
  expect(cancelled).toBe(1)
  expect(written).toBeLessThan(4_000)
  await response.body?.cancel().catch(() => {})
})

/** The engine goes on for nobody: it counts as stuck once it has done so for a minute, and not before. */
async function expectStuckAfterAMinute(clock: TurnedClock, state: { readonly stuck: number }): Promise<void> {
  while (clock.pending === 0) await new Promise((resolve) => setImmediate(resolve))
  await clock.turn(59_999)
  expect(state.stuck).toBe(0)
  await clock.turn(1)
  expect(state.stuck).toBe(1)
}

test('an engine that goes on for a minute after its caller has left is reported as stuck', async () => {
  const letGo = Promise.withResolvers<void>()
  const { address, clock, state } = await serve(() => letGo.promise)
  const hangUp = new AbortController()
  const call = ask(address, {}, hangUp.signal).catch(() => null)
  await untilStats(address, (stats) => stats.active === 1)
  await clock.turn(60_000)
  expect(state.stuck).toBe(0)
  hangUp.abort()
  await call
  await expectStuckAfterAMinute(clock, state)
  letGo.resolve()
  await untilStats(address, (stats) => stats.active === 0)
})

test('so is one that goes on with embeddings', async () => {
  const [begun, letGo] = [Promise.withResolvers<void>(), Promise.withResolvers<never>()]
  const { address, clock, state } = await serve(
    () => Promise.resolve(),
    () => {
      begun.resolve()
      return letGo.promise
    },
  )
  const hangUp = new AbortController()
  const call = fetch(`${address.baseUrl}/embeddings`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${address.bearer}` },
    body: JSON.stringify({ model: 'fake', input: ['a'] }),
    signal: hangUp.signal,
  }).catch(() => null)
  await begun.promise
  expect(clock.pending).toBe(0)
  hangUp.abort()
  await call
  await expectStuckAfterAMinute(clock, state)
  letGo.reject(new Error('at last'))
  await untilStats(address, (stats) => stats.cancelled === 1)
})
