/** The official client against a GGUF model that the real engine runs in its supervised child. One letter is one token. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import OpenAI, { APIError } from 'openai'
import type { TestKey } from '../customer.ts'
import '../ggufEngine.ts'
import { CONTEXT_TOKENS, costOf, type House, openHouse } from './house.ts'

// The clients wait before they try again, and an engine takes a while to start on a busy machine.
setDefaultTimeout(60_000)

let house: House

beforeAll(async () => {
  house = await openHouse({ gguf: true })
})
afterAll(() => house?.close())

const clientOf = ({ key }: TestKey) => new OpenAI({ baseURL: house.server.url, apiKey: key })
const ask = <More extends object = object>(model: string, more?: More) => ({
  model,
  messages: [{ role: 'user' as const, content: 'hi' }],
  // Drawn at random, one token in thousands would be another byte than a letter or a space.
  temperature: 0,
  ...(more as More),
})
/** `<|endoftext|><|im_start|>user\n` + hi + `<|im_end|>\n<|im_start|>assistant\n` */
const PROMPT_TOKENS = 22

test('real tokens, whole and streamed, counted by the engine and charged to the micro-cent', async () => {
  const key = await house.customer()
  const client = clientOf(key)
  const whole = await client.chat.completions.create(ask('svc/solo', { max_tokens: 30 }))
  expect(whole.choices[0]?.message.content).toMatch(/^[a-z ]{30}$/)
  expect(whole.usage).toMatchObject({ prompt_tokens: PROMPT_TOKENS, completion_tokens: 30, total_tokens: 52 })
  const stream = await client.chat.completions.create(ask('svc/solo', { max_tokens: 40, stream: true as const }))
  let text = ''
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
  expect(text).toMatch(/^[a-z ]{40}$/)
  const rows = await house.charges(key)
  expect(rows.map(({ prompt, completion, outcome }) => [prompt, completion, outcome])).toEqual([
    [22n, 30n, 'completed'],
    [22n, 40n, 'completed'],
  ])
  for (const row of rows) expect(row.cost).toBe(costOf(row))
})

test('several at once: each gets an answer of its own, and each is charged', async () => {
  const keys = await Promise.all(Array.from({ length: 6 }, () => house.customer()))
  const answers = await Promise.all(
    keys.map((key) => clientOf(key).chat.completions.create(ask('svc/shared', { max_tokens: 50, temperature: 1 }))),
  )
  expect(new Set(answers.map(({ choices }) => choices[0]?.message.content)).size).toBe(6)
  for (const key of keys) {
    const rows = await house.charges(key)
    expect(rows).toHaveLength(1)
    expect(rows[0]?.completion).toBe(50n)
  }
})

test('left in mid-stream: charged for what was generated, and its only sequence is free for the next caller', async () => {
  const key = await house.customer()
  const client = clientOf(key)
  const stream = await client.chat.completions.create(ask('svc/solo', { stream: true as const }))
  let read = 0
  for await (const chunk of stream) {
    read += chunk.choices[0]?.delta.content?.length ?? 0
    if (read >= 10) break
  }
  const [row] = await house.chargesOnce(key, 1)
  expect(row).toMatchObject({ outcome: 'cancelled', prompt: BigInt(PROMPT_TOKENS) })
  expect(row?.completion).toBeGreaterThanOrEqual(BigInt(read))
  expect(row?.completion).toBeLessThan(BigInt(CONTEXT_TOKENS - PROMPT_TOKENS - 2))
  expect(row?.cost).toBe(costOf(row ?? { prompt: 0n, completion: 0n }))
  const next = await client.chat.completions.create(ask('svc/solo', { max_tokens: 5 }))
  expect(next.usage?.completion_tokens).toBe(5)
})

test('its process killed in mid-answer: the tokens, then an error; charged for them; then it serves again', async () => {
  const key = await house.customer()
  const client = clientOf(key)
  const stream = await client.chat.completions.create(ask('svc/solo', { stream: true as const }))
  let text = ''
  let killed = false
  const reading = async () => {
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? ''
      if (killed || text.length < 10) continue
      process.kill(soloPid(), 'SIGKILL')
      killed = true
    }
  }
  const failure = await reading().then(
    () => null,
    (error: unknown) => error,
  )
  expect(failure).toBeInstanceOf(APIError)
  expect(failure).toMatchObject({ code: 'upstream_error', type: 'api_error' })
  expect(text).toMatch(/^[a-z ]{10,}$/)
  const [row] = await house.charges(key)
  expect(row).toMatchObject({ outcome: 'interrupted', prompt: BigInt(PROMPT_TOKENS), completion: BigInt(text.length) })
  expect(row?.cost).toBe(costOf(row ?? { prompt: 0n, completion: 0n }))

  const next = await client.chat.completions.create(ask('svc/solo', { max_tokens: 5 }))
  expect(next.choices[0]?.message.content).toMatch(/^[a-z ]{5}$/)
  expect(await house.charges(key)).toHaveLength(2)
})

/** The engine with one sequence says its process id when it is ready. */
function soloPid(): number {
  const ready = house.server
    .errors()
    .split('\n')
    .findLast((line) => line.includes('the GGUF engine is ready') && line.includes('solo.gguf'))
  if (ready === undefined) throw new Error('the engine was never ready')
  return JSON.parse(ready).pid
}

test('embeddings: one vector a text, of length one, in order, with the tokens that the engine counted', async () => {
  const key = await house.customer()
  const client = clientOf(key)
  const create = (input: string[]) =>
    client.embeddings.create({ model: 'svc/solo-vectors', input, encoding_format: 'float' })
  const [both, first, second] = [await create(['abc', 'xyz w']), await create(['abc']), await create(['xyz w'])]
  expect(both.data.map(({ embedding }) => embedding)).toEqual([
    first.data[0]?.embedding ?? [],
    second.data[0]?.embedding ?? [],
  ])
  for (const { embedding } of both.data) expect(Math.hypot(...embedding)).toBeCloseTo(1, 5)
  expect(both.usage.prompt_tokens).toBe(first.usage.prompt_tokens + second.usage.prompt_tokens)
  // A letter is a token; the model puts one more before, and one after.
  expect(first.usage.prompt_tokens).toBeGreaterThanOrEqual(3)
  const long = client.embeddings.create({
    model: 'svc/solo-vectors',
    input: 'x'.repeat(5_000),
    encoding_format: 'float',
  })
  const refused = await long.then(
    () => null,
    (error: unknown) => error,
  )
  expect(refused).toMatchObject({ status: 400, code: 'context_length_exceeded', param: 'input' })
  const rows = await house.charges(key)
  expect(rows.map(({ prompt }) => prompt)).toEqual(
    [both, first, second].map((each) => BigInt(each.usage.prompt_tokens)),
  )
})
