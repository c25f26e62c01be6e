/** The real engine, in its real process, on a tiny model whose every token is one letter or space. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import '../../../test/ggufEngine.ts'
import { ask, openAnswer, QUIET, readAnswer, statsOf, untilStats } from '../../../test/ggufAnswer.ts'
import { tinyGguf, writeTinyGguf } from '../../../test/tinyGguf.ts'
import { systemClock } from '../../infra/clock.ts'
import { type GgufAddress, type GgufEngine, startGguf } from './supervise.ts'

const CONTEXT_TOKENS = 2048
/** `<|endoftext|><|im_start|>user\n` + text + `<|im_end|>\n<|im_start|>assistant\n` */
const TEMPLATE_TOKENS = 1 + 1 + 5 + 2 + 1 + 10
const SEQUENCES = 2

let folder: string
let engine: GgufEngine
let address: GgufAddress

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gguf-'))
  const file = writeTinyGguf(join(folder, 'tiny.gguf'), { contextTokens: CONTEXT_TOKENS })
  engine = startGguf({ file, sequences: SEQUENCES, threads: 1, gpu: 'none', clock: systemClock, log: QUIET })
  address = await engine.address()
})

afterAll(async () => {
  await engine.close()
  rmSync(folder, { recursive: true, force: true })
})

test('the tiny model is small, and the same for the same seed', () => {
  expect(tinyGguf().length).toBeLessThan(1_000_000)
  expect(tinyGguf({ seed: 7 })).toEqual(tinyGguf({ seed: 7 }))
  expect(tinyGguf({ seed: 7 })).not.toEqual(tinyGguf({ seed: 8 }))
})

test('an answer streams token by token: role first, then text, the reason, the usage, [DONE]', async () => {
  // Not drawn at random: of random weights now and then another character comes.
  const response = await ask(address, { max_tokens: 40, temperature: 0 })
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  const { chunks, text, isDone } = await readAnswer(response)
  expect(chunks[0]?.choices?.[0]).toEqual({
    index: 0,
    delta: { role: 'assistant', content: '' },
    finish_reason: null,
  } as never)
  expect(text).toMatch(/^[a-z ]{40}$/)
  expect(chunks.at(-2)?.choices?.[0]?.finish_reason).toBe('length')
  expect(chunks.at(-1)?.choices).toEqual([])
  expect(isDone).toBe(true)
})

test("usage is the engine's own count, in total and with every chunk", async () => {
  const { chunks, text } = await readAnswer(await ask(address, { max_tokens: 25 }))
  const promptTokens = TEMPLATE_TOKENS + 'hi'.length
  expect(chunks.at(-1)?.usage).toMatchObject({
    prompt_tokens: promptTokens,
    completion_tokens: text.length,
    total_tokens: promptTokens + text.length,
  })
  let characters = 0
  for (const chunk of chunks.slice(1, -2)) {
    characters += chunk.choices?.[0]?.delta.content?.length ?? 0
    expect(chunk.usage?.completion_tokens).toBe(characters)
  }
})

test('without include_usage no chunk carries usage', async () => {
  const { chunks, isDone } = await readAnswer(await ask(address, { max_tokens: 3, stream_options: null }))
  expect(chunks.every((chunk) => chunk.usage === undefined && chunk.choices?.length === 1)).toBe(true)
  expect(isDone).toBe(true)
})

test('every message counts, whatever its role, and text that looks like a control token stays text', async () => {
  const messages = [
    { role: 'system', content: 'be brief' },
    { role: 'user', content: '<|im_end|>' },
    { role: 'assistant', content: 'ö' },
    { role: 'user', content: 'go' },
  ]
  const { chunks } = await readAnswer(await ask(address, { max_tokens: 1, messages }))
  const turn = (role: string, contentBytes: number) => 1 + `${role}\n`.length + contentBytes + 2
  const expected = 1 + turn('system', 8) + turn('user', 10) + turn('assistant', 2) + turn('user', 2) + 1 + 10
  expect(chunks.at(-1)?.usage?.prompt_tokens).toBe(expected)
})

test('a message may be empty', async () => {
  const response = await ask(address, { max_tokens: 2, messages: [{ role: 'user', content: '' }] })
  expect((await readAnswer(response)).text).toHaveLength(2)
})

test('temperature 0 gives the same answer twice, the default does not', async () => {
  const texts = async (more: object) => {
    const both = [await ask(address, { max_tokens: 60, ...more }), await ask(address, { max_tokens: 60, ...more })]
    return (await Promise.all(both.map(readAnswer))).map(({ text }) => text)
  }
  const [first, second] = await texts({ temperature: 0 })
  expect(first).toBe(second as string)
  const [third, fourth] = await texts({})
  expect(third).not.toBe(fourth as string)
})

test('an answer ends with the context, not beyond it and not by forgetting the prompt', async () => {
  const content = 'x'.repeat(CONTEXT_TOKENS - TEMPLATE_TOKENS - 100)
  const { chunks } = await readAnswer(await ask(address, { messages: [{ role: 'user', content }] }))
  expect(chunks.at(-2)?.choices?.[0]?.finish_reason).toBe('length')
  expect(chunks.at(-1)?.usage).toMatchObject({ prompt_tokens: CONTEXT_TOKENS - 100, completion_tokens: 98 })
})

test.each([CONTEXT_TOKENS - TEMPLATE_TOKENS - 1, CONTEXT_TOKENS, CONTEXT_TOKENS * 100])(
  'a prompt of %p characters that leaves no room is refused as too long',
  async (characters) => {
    const response = await ask(address, { messages: [{ role: 'user', content: 'x'.repeat(characters) }] })
    expect(response.status).toBe(400)
    const { error } = (await response.json()) as { error: object }
    expect(error).toMatchObject({ code: 'context_length_exceeded', type: 'invalid_request_error', param: 'messages' })
  },
)

test.each([
  ['no messages', { messages: [] }],
  ['not streamed', { stream: false }],
  ['max_tokens of 0', { max_tokens: 0 }],
  ['a role that is none', { messages: [{ role: 'tool', content: '' }] }],
])('%s: refused with 400', async (_, more) => {
  const response = await ask(address, more)
  expect(response.status).toBe(400)
  expect(await response.json()).toMatchObject({ error: { code: 'invalid_request' } })
})

test('only who has the bearer token is served', async () => {
  expect((await ask({ ...address, bearer: 'guess' })).status).toBe(401)
  expect((await fetch(`${address.baseUrl}/models`)).status).toBe(401)
})

test('the model is listed under the name of its file', async () => {
  const response = await fetch(`${address.baseUrl}/models`, { headers: { authorization: `Bearer ${address.bearer}` } })
  expect(await response.json()).toMatchObject({ object: 'list', data: [{ id: 'tiny', object: 'model' }] })
})

test('a caller who hangs up in mid-answer stops the engine', async () => {
  const before = await statsOf(address)
  const hangUp = new AbortController()
  const answer = openAnswer(await ask(address, {}, hangUp.signal))
  for (let index = 0; index < 5; index += 1) expect(await answer.next()).not.toBeNull()
  hangUp.abort()
  const after = await untilStats(address, (stats) => stats.active === 0)
  expect(after.cancelled - before.cancelled).toBe(1)
  expect(after.completionTokens - before.completionTokens).toBeLessThan(CONTEXT_TOKENS - TEMPLATE_TOKENS - 10)
})

test('a caller who hangs up before the first token stops the engine: while reading the prompt, and while waiting', async () => {
  const before = await statsOf(address)
  const hangUp = new AbortController()
  const long = [{ role: 'user', content: 'x'.repeat(1900) }]
  const calls = Array.from({ length: SEQUENCES + 1 }, () =>
    ask(address, { messages: long }, hangUp.signal)
      .then(readAnswer)
      .catch(() => null),
  )
  await untilStats(address, (stats) => stats.active === SEQUENCES && stats.waiting === 1)
  hangUp.abort()
  await Promise.all(calls)
  const after = await untilStats(address, (stats) => stats.active === 0 && stats.waiting === 0)
  expect(after.cancelled - before.cancelled).toBe(SEQUENCES + 1)
  expect(after.finished).toBe(before.finished)
})

test('several answers are generated at once, and more wait their turn', async () => {
  const hangUp = new AbortController()
  const first = openAnswer(await ask(address, {}, hangUp.signal))
  const second = openAnswer(await ask(address, {}, hangUp.signal))
  await Promise.all([first.next(), second.next()])
  expect((await statsOf(address)).active).toBe(SEQUENCES)
  const third = ask(address, { max_tokens: 4 }).then(readAnswer)
  await untilStats(address, (stats) => stats.waiting === 1)
  hangUp.abort()
  expect((await third).text).toHaveLength(4)
})

test('when the waiting room is full too, calls are refused with 503 at once', async () => {
  const hangUp = new AbortController()
  const running = Array.from({ length: SEQUENCES + SEQUENCES * 8 }, () =>
    ask(address, {}, hangUp.signal).catch(() => null),
  )
  await untilStats(address, (stats) => stats.active + stats.waiting === SEQUENCES * 9)
  const response = await ask(address)
  expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1'])
  hangUp.abort()
  await Promise.all(running)
  await untilStats(address, (stats) => stats.active + stats.waiting === 0)
})

test('a model that ends its answer ends it with "stop"', async () => {
  const file = writeTinyGguf(join(folder, 'ends.gguf'), { ends: true })
  const ending = startGguf({ file, sequences: 1, threads: 1, gpu: 'none', clock: systemClock, log: QUIET })
  const { chunks, text } = await readAnswer(await ask(await ending.address()))
  expect(chunks.at(-2)?.choices?.[0]?.finish_reason).toBe('stop')
  // The token that ends the answer was generated, too.
  expect(chunks.at(-1)?.usage?.completion_tokens).toBe(text.length + 1)
  await ending.close()
  expect(ending.pid).toBeNull()
})
