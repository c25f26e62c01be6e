/** LangChain's `@langchain/openai` as it comes from npm, with nothing but base URL and key changed. It lists no models. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import type { AIMessageChunk, UsageMetadata } from '@langchain/core/messages'
import { ChatOpenAI, type ChatOpenAIFields, DallEAPIWrapper, OpenAIEmbeddings } from '@langchain/openai'
import type { TestKey } from '../customer.ts'
import { type ChargeRow, costOf, type House, openHouse } from './house.ts'

// The client waits before it tries again.
setDefaultTimeout(60_000)

let house: House
let callsMade = 0

beforeAll(async () => {
  house = await openHouse()
})
afterAll(() => house?.close())

function modelOf({ key }: Pick<TestKey, 'key'>, model: string, more: ChatOpenAIFields = {}): ChatOpenAI {
  // Counts what goes over the wire; each retry is a request of its own.
  const counted: typeof fetch = Object.assign((...call: Parameters<typeof fetch>) => {
    callsMade += 1
    return fetch(...call)
  }, fetch)
  callsMade = 0
  return new ChatOpenAI({ model, apiKey: key, configuration: { baseURL: house.server.url, fetch: counted }, ...more })
}

const PROMPT = [
  ['system', 'Count.'],
  ['user', 'Count for me please'],
] as [string, string][]

/** LangChain's own types lose it where a message may be of any structure. */
function usageOf(message: AIMessageChunk): UsageMetadata | undefined {
  return message.usage_metadata as UsageMetadata | undefined
}

function expectCharged(row: ChargeRow | undefined, message: AIMessageChunk): void {
  const usage = usageOf(message)
  expect(row).toMatchObject({
    outcome: 'completed',
    estimated: false,
    prompt: BigInt(usage?.input_tokens ?? -1),
    completion: BigInt(usage?.output_tokens ?? -1),
    // Said only where something was cached.
    cached: BigInt(usage?.input_token_details?.cache_read ?? 0),
  })
  expect(usage?.input_token_details?.cache_read).not.toBe(0)
  expect(row?.cost).toBe(costOf(row ?? { prompt: 0n, completion: 0n }))
}

for (const model of ['svc/sandbox', 'svc/exact']) {
  test(`invoke and stream of ${model}: the same text, and the usage that is charged`, async () => {
    const key = await house.customer()
    const whole = await modelOf(key, model).invoke(PROMPT)
    expect(whole.text.length).toBeGreaterThan(0)
    expect(whole.response_metadata).toMatchObject({ finish_reason: 'stop', model_name: model })

    let streamed: AIMessageChunk | undefined
    for await (const chunk of await modelOf(key, model).stream(PROMPT)) streamed = streamed?.concat(chunk) ?? chunk
    if (streamed === undefined) throw new Error('nothing came')
    expect(streamed.text).toBe(whole.text)
    expect(streamed.response_metadata).toMatchObject({ finish_reason: 'stop' })

    const rows = await house.charges(key)
    expect(rows).toHaveLength(2)
    expectCharged(rows[0], whole)
    expectCharged(rows[1], streamed)
  })
}

test('limit and temperature are passed on', async () => {
  const key = await house.customer()
  const answer = await modelOf(key, 'svc/sandbox', { maxTokens: 3, temperature: 0.5 }).invoke(PROMPT)
  expect(answer.response_metadata).toMatchObject({ finish_reason: 'length' })
  expect(usageOf(answer)?.output_tokens).toBe(3)
})

async function failureOf(work: PromiseLike<unknown>): Promise<Error> {
  const failure = await Promise.resolve(work).then(
    () => null,
    (error: unknown) => error,
  )
  if (failure instanceof Error) return failure
  throw new Error(`did not fail: ${failure}`)
}

test('its errors carry our status, code and words, and what can not get better is not tried again', async () => {
  const key = await house.customer()
  const asked = async (model: ChatOpenAI) => ({ failure: await failureOf(model.invoke(PROMPT)), calls: callsMade })
  const wrong = await asked(modelOf({ key: 'svc_live_000000000000000000000000' }, 'svc/sandbox'))
  expect(wrong).toMatchObject({ failure: { status: 401, code: 'invalid_api_key' }, calls: 1 })
  const unknown = await asked(modelOf(key, 'svc/nope'))
  expect(unknown).toMatchObject({ failure: { status: 404, code: 'model_not_found' }, calls: 1 })
  const poor = await asked(modelOf(await house.customer({ cents: 0 }), 'svc/sandbox'))
  expect(poor).toMatchObject({ failure: { status: 402, code: 'insufficient_balance' }, calls: 1 })
  const odd = await asked(modelOf(key, 'svc/sandbox', { topP: 0.5 }))
  expect(odd).toMatchObject({ failure: { status: 400, code: 'unsupported_parameter', param: 'top_p' }, calls: 1 })
  const down = await asked(modelOf(key, 'svc/down', { maxRetries: 0 }))
  expect(down).toMatchObject({ failure: { status: 503, code: 'upstream_unavailable' }, calls: 1 })
  expect(down.failure.message).toContain("can't be reached now")
  expect(await house.charges(key)).toEqual([])
})

test('a provider that is busy for a moment: its retry is answered, and charged once', async () => {
  const key = await house.customer()
  await modelOf(key, 'svc/busy-once').invoke(PROMPT)
  expect(callsMade).toBe(2)
  expect(await house.charges(key)).toHaveLength(1)
})

test('a stream that breaks off raises its error after the tokens', async () => {
  const model = modelOf(await house.customer(), 'svc/sandbox', { maxRetries: 0 })
  let pieces = 0
  const reading = async () => {
    for await (const chunk of await model.stream('[[sandbox fail=unavailable fail_after=3]] hello')) {
      if (chunk.text !== '') pieces += 1
    }
  }
  expect(await failureOf(reading())).toMatchObject({ code: 'upstream_unavailable' })
  expect(pieces).toBe(3)
})

test('embeddings, with the format named', async () => {
  const key = await house.customer()
  const embeddings = new OpenAIEmbeddings({
    model: 'svc/vectors',
    apiKey: key.key,
    encodingFormat: 'float',
    configuration: { baseURL: house.server.url },
  })
  const vectors = await embeddings.embedDocuments(['a toll gate', 'another thing'])
  expect(vectors.map((vector) => vector.length)).toEqual([384, 384])
  expect(await embeddings.embedQuery('a toll gate')).toEqual(vectors[0] ?? [])
  expect((await house.charges(key)).map(({ cost }) => cost)).toEqual([1_000_000n, 1_000_000n])
})

test('embeddings: its errors carry our status, code and words', async () => {
  const key = await house.customer()
  const embeddings = (model: string, more: object) =>
    new OpenAIEmbeddings({ model, apiKey: key.key, configuration: { baseURL: house.server.url }, ...more })
  const unknown = await failureOf(embeddings('svc/nope', { encodingFormat: 'float' }).embedQuery('a'))
  expect(unknown).toMatchObject({ status: 404, code: 'model_not_found' })
  const unnamed = await failureOf(embeddings('svc/vectors', {}).embedQuery('a'))
  expect(unnamed).toMatchObject({ status: 400, code: 'unsupported_parameter', param: 'encoding_format' })
  expect(await house.charges(key)).toEqual([])
})

test("images: its tool always sends DALL·E's own style and quality, and is told which parameter is not taken", async () => {
  const key = await house.customer()
  const tool = new DallEAPIWrapper({
    model: 'svc/pictures',
    apiKey: key.key,
    baseUrl: house.server.url,
    size: '512x512' as '1024x1024',
    dallEResponseFormat: 'b64_json',
  })
  const failure = await failureOf(tool.invoke('A toll gate'))
  expect(failure).toMatchObject({ status: 400, code: 'unsupported_parameter' })
  expect(String(failure)).toMatch(/'style' and 'quality' are not supported here; leave them out/)
})
