/** The `ai` SDK with `@ai-sdk/openai-compatible` as they come from npm, with nothing but base URL and key changed. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import {
  APICallError,
  cosineSimilarity,
  embed,
  embedMany,
  generateImage,
  generateText,
  RetryError,
  streamText,
} from 'ai'
import type { TestKey } from '../customer.ts'
import '../ggufEngine.ts'
import { type ChargeRow, costOf, type House, openHouse } from './house.ts'

// The clients wait before they try again, and an engine takes a while to start on a busy machine.
setDefaultTimeout(60_000)

let house: House

beforeAll(async () => {
  house = await openHouse({ gguf: true })
})
afterAll(() => house?.close())

const modelsOf = ({ key }: Pick<TestKey, 'key'>) =>
  createOpenAICompatible({ name: 'tollgate', baseURL: house.server.url, apiKey: key })

const PROMPT = 'Count for me please'

interface SdkUsage {
  readonly inputTokens: number | undefined
  readonly outputTokens: number | undefined
  readonly inputTokenDetails: { readonly cacheReadTokens: number | undefined }
}

function expectCharged(row: ChargeRow | undefined, usage: SdkUsage): void {
  expect(row).toMatchObject({
    outcome: 'completed',
    estimated: false,
    prompt: BigInt(usage.inputTokens ?? -1),
    completion: BigInt(usage.outputTokens ?? -1),
    cached: BigInt(usage.inputTokenDetails.cacheReadTokens ?? -1),
  })
  expect(row?.cost).toBe(costOf(row ?? { prompt: 0n, completion: 0n }))
}

for (const [model, finishReason] of [
  ['svc/sandbox', 'stop'],
  ['svc/exact', 'stop'],
  ['svc/shared', 'length'],
] as const) {
  test(`generateText and streamText of ${model}: the same usage that is charged`, async () => {
    const key = await house.customer()
    const whole = await generateText({ model: modelsOf(key)(model), prompt: PROMPT, maxOutputTokens: 60 })
    expect(whole.text.length).toBeGreaterThan(0)
    expect(whole.finishReason).toBe(finishReason)
    expect(whole.response.modelId).toBe(model)
    const streamed = streamText({ model: modelsOf(key)(model), prompt: PROMPT, maxOutputTokens: 60 })
    let text = ''
    for await (const piece of streamed.textStream) text += piece
    expect(text).toBe(await streamed.text)
    expect(text.length).toBeGreaterThan(0)
    expect(await streamed.finishReason).toBe(finishReason)

    const rows = await house.charges(key)
    expect(rows).toHaveLength(2)
    expectCharged(rows[0], whole.usage)
    expectCharged(rows[1], await streamed.usage)
  })
}

async function failureOf(work: PromiseLike<unknown>): Promise<APICallError> {
  const failure = await Promise.resolve(work).then(
    () => null,
    (error: unknown) => (RetryError.isInstance(error) ? error.lastError : error),
  )
  if (APICallError.isInstance(failure)) return failure
  throw new Error(`not an error of the SDK: ${failure}`)
}

test('its errors carry our message and status, and say rightly whether to try again', async () => {
  const wrong = modelsOf({ key: 'svc_live_000000000000000000000000' })
  const poor = modelsOf(await house.customer({ cents: 0 }))
  const models = modelsOf(await house.customer())
  const asked = (model: Parameters<typeof generateText>[0]['model']) =>
    failureOf(generateText({ model, prompt: PROMPT }))

  expect(await asked(wrong('svc/sandbox'))).toMatchObject({ statusCode: 401, isRetryable: false })
  expect(await asked(models('svc/nope'))).toMatchObject({ statusCode: 404, isRetryable: false })
  expect(await asked(poor('svc/sandbox'))).toMatchObject({ statusCode: 402, isRetryable: false })
  const down = await failureOf(generateText({ model: models('svc/down'), prompt: PROMPT, maxRetries: 0 }))
  expect(down).toMatchObject({ statusCode: 503, isRetryable: true })
  expect(down.message).toBe("The model can't be reached now. Try again in a moment.")
})

test('an error on a stream reaches the reader', async () => {
  const models = modelsOf(await house.customer())
  const errors: unknown[] = []
  const { stream } = streamText({
    model: models('svc/sandbox'),
    prompt: '[[sandbox fail=unavailable fail_after=2]] hello',
    onError: ({ error }) => void errors.push(error),
  })
  const kinds: string[] = []
  for await (const part of stream) kinds.push(part.type)
  expect(kinds).toContain('error')
  expect(kinds.filter((kind) => kind === 'text-delta')).toHaveLength(2)
  expect(errors).toHaveLength(1)
})

test('embed and embedMany, of the sandbox and of a GGUF file', async () => {
  for (const model of ['svc/vectors', 'svc/solo-vectors']) {
    const key = await house.customer()
    const { embedding, usage } = await embed({ model: modelsOf(key).embeddingModel(model), value: 'a toll gate' })
    expect(usage.tokens).toBeGreaterThan(0)
    const values = ['a toll gate', 'another thing']
    const { embeddings } = await embedMany({ model: modelsOf(key).embeddingModel(model), values })
    expect(embeddings).toHaveLength(2)
    expect(cosineSimilarity(embedding, embeddings[0] ?? [])).toBeCloseTo(1, 4)
    expect(cosineSimilarity(embedding, embeddings[1] ?? [])).toBeLessThan(0.999)
    expect((await house.charges(key)).map(({ prompt }) => prompt > 0n)).toEqual([true, true])
  }
})

test('generateImage', async () => {
  const key = await house.customer()
  const { images } = await generateImage({
    model: modelsOf(key).imageModel('svc/pictures'),
    prompt: 'A toll gate',
    n: 2,
    size: '512x512',
  })
  expect(images.map(({ mediaType }) => mediaType)).toEqual(['image/png', 'image/png'])
  expect((await house.charges(key)).reduce((sum, { cost }) => sum + cost, 0n)).toBe(8_000_000n)
})

test('the errors of embeddings and images are its own, with our status and words', async () => {
  const models = modelsOf(await house.customer())
  const embedding = await failureOf(embed({ model: models.embeddingModel('svc/nope'), value: 'a' }))
  expect(embedding).toMatchObject({ statusCode: 404, isRetryable: false })
  const poor = modelsOf(await house.customer({ cents: 0 }))
  const image = await failureOf(generateImage({ model: poor.imageModel('svc/pictures'), prompt: 'x' }))
  expect(image).toMatchObject({ statusCode: 402, isRetryable: false })
})
