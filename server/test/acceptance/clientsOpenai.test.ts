/** The official `openai` client as it comes from npm, with nothing but its base URL and key changed. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import OpenAI, { APIError, AuthenticationError, BadRequestError, NotFoundError, RateLimitError } from 'openai'
import type { TestKey } from '../customer.ts'
import { costOf, type House, openHouse } from './house.ts'

// The clients wait before they try again, and an engine takes a while to start on a busy machine.
setDefaultTimeout(60_000)

let house: House
let callsMade = 0

beforeAll(async () => {
  house = await openHouse()
})
afterAll(() => house?.close())

function clientOf({ key }: Pick<TestKey, 'key'>, more: object = {}): OpenAI {
  // Counts what goes over the wire; each retry is a request of its own.
  const counted: typeof fetch = Object.assign((...call: Parameters<typeof fetch>) => {
    callsMade += 1
    return fetch(...call)
  }, fetch)
  callsMade = 0
  return new OpenAI({ baseURL: house.server.url, apiKey: key, fetch: counted, ...more })
}

const ask = <More extends object = object>(model: string, more?: More) => ({
  model,
  messages: [{ role: 'user' as const, content: 'Count for me please' }],
  ...(more as More),
})

/** Reads a stream to its end. */
async function readAll(stream: AsyncIterable<OpenAI.ChatCompletionChunk>) {
  const chunks: OpenAI.ChatCompletionChunk[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return { chunks, last: chunks.at(-1), text: chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('') }
}

async function failureOf(work: PromiseLike<unknown>): Promise<APIError> {
  const failure = await Promise.resolve(work).then(
    () => null,
    (error: unknown) => error,
  )
  if (failure instanceof APIError) return failure
  throw new Error(`not an error of the client: ${failure}`)
}

describe('an answer, whole and streamed, costs its tokens times the price, to the micro-cent', () => {
  for (const [model, cachedShare] of [
    ['sandbox', 0n],
    ['exact', 2n],
  ] as const) {
    test(model, async () => {
      const key = await house.customer()
      const client = clientOf(key)
      const whole = await client.chat.completions.create(ask(`svc/${model}`))
      const streamed = await readAll(await client.chat.completions.create(ask(model, { stream: true as const })))

      expect(whole.model).toBe(`svc/${model}`)
      expect(streamed.text).toBe(whole.choices[0]?.message.content ?? '')
      expect(streamed.chunks.every(({ choices }) => choices.length === 1)).toBe(true)
      expect(streamed.chunks[0]?.choices[0]?.delta.role).toBe('assistant')
      expect(streamed.last?.choices[0]?.finish_reason).toBe('stop')
      expect(whole._request_id).toMatch(/^[0-9a-f]{32}$/)

      const rows = await house.charges(key)
      const usages = [whole.usage, streamed.last?.usage]
      expect(rows).toHaveLength(2)
      for (const [index, row] of rows.entries()) {
        const usage = usages[index]
        expect(row).toMatchObject({ model: `svc/${model}`, tier: 'serverless', estimated: false, outcome: 'completed' })
        expect([row.prompt, row.completion]).toEqual([
          BigInt(usage?.prompt_tokens ?? -1),
          BigInt(usage?.completion_tokens ?? -1),
        ])
        expect(row.cached).toBe(cachedShare === 0n ? 0n : row.prompt / cachedShare)
        expect(usage?.prompt_tokens_details?.cached_tokens).toBe(row.cached === 0n ? undefined : Number(row.cached))
        expect(row.cost).toBe(costOf(row))
      }
      const spent = rows.reduce((sum, { cost }) => sum + cost, 0n)
      const balance = await client.get<{ balance_cents: number }>('/billing/balance')
      expect((balance as { balance_cents: number }).balance_cents).toBe(Number((2_500_000_000n - spent) / 1_000_000n))
    })
  }

  test('of a provider that reports no usage: counted here and marked as estimated', async () => {
    const key = await house.customer()
    const answer = await clientOf(key).chat.completions.create(ask('svc/silent-usage'))
    const [row] = await house.charges(key)
    expect(row).toMatchObject({
      estimated: true,
      cached: 0n,
      completion: BigInt(answer.usage?.completion_tokens ?? -1),
    })
    expect(row?.completion).toBeGreaterThan(0n)
    expect(row?.cost).toBe(costOf(row ?? { prompt: 0n, completion: 0n }))
  })

  test('on the economy tier, by the canonical id without its suffix', async () => {
    const key = await house.customer()
    const answer = await clientOf(key).chat.completions.create(ask('svc/sandbox:economy', { max_tokens: 3 }))
    expect(answer).toMatchObject({ model: 'svc/sandbox', choices: [{ finish_reason: 'length' }] })
    const [row] = await house.charges(key)
    expect(row).toMatchObject({ tier: 'economy', completion: 3n })
  })

  test('a stream that its reader leaves is charged for what was generated, and the provider is cancelled', async () => {
    const key = await house.customer()
    const stream = await clientOf(key).chat.completions.create(ask('svc/endless', { stream: true as const }))
    let read = 0
    for await (const chunk of stream) {
      if ((chunk.choices[0]?.delta.content ?? '') !== '') read += 1
      if (read === 5) break
    }
    await house.providerIdle()
    const [row] = await house.chargesOnce(key, 1)
    expect(row).toMatchObject({ outcome: 'cancelled', estimated: true })
    expect(row?.completion).toBeGreaterThanOrEqual(5n)
    expect(row?.cost).toBe(costOf(row ?? { prompt: 0n, completion: 0n }))
  })
})

describe('errors arrive as the classes that the client has for them', () => {
  test('a wrong key: AuthenticationError, never retried', async () => {
    const client = clientOf({ key: 'svc_live_000000000000000000000000' })
    const failure = await failureOf(client.chat.completions.create(ask('svc/sandbox')))
    expect(failure).toBeInstanceOf(AuthenticationError)
    expect(failure).toMatchObject({ status: 401, code: 'invalid_api_key', type: 'authentication_error' })
    expect(failure.requestID).toMatch(/^[0-9a-f]{32}$/)
    expect(callsMade).toBe(1)
  })

  test('an unknown model: NotFoundError, and on a stream an error raised while it is read', async () => {
    const client = clientOf(await house.customer())
    const failure = await failureOf(client.chat.completions.create(ask('svc/nope')))
    expect(failure).toBeInstanceOf(NotFoundError)
    expect(failure).toMatchObject({ status: 404, code: 'model_not_found' })
    const stream = await client.chat.completions.create(ask('svc/nope', { stream: true as const }))
    expect(await failureOf(readAll(stream))).toMatchObject({ code: 'model_not_found', type: 'invalid_request_error' })
  })

  test('no credit: 402, which the client does not retry, and nothing is charged', async () => {
    const key = await house.customer({ cents: 0 })
    const failure = await failureOf(clientOf(key).chat.completions.create(ask('svc/sandbox')))
    expect(failure).toMatchObject({ status: 402, code: 'insufficient_balance', type: 'billing_error' })
    expect(callsMade).toBe(1)
    expect(await house.charges(key)).toEqual([])
  })

  test('tools: BadRequestError that names the parameter', async () => {
    const tools = [{ type: 'function' as const, function: { name: 'f', parameters: {} } }]
    const failure = await failureOf(
      clientOf(await house.customer()).chat.completions.create(ask('svc/sandbox', { tools })),
    )
    expect(failure).toBeInstanceOf(BadRequestError)
    expect(failure).toMatchObject({ status: 400, code: 'unsupported_parameter', param: 'tools' })
  })

  test('a provider that is down: 503, retried twice as the client does by default, free of charge', async () => {
    const key = await house.customer()
    const failure = await failureOf(clientOf(key).chat.completions.create(ask('svc/down')))
    expect(failure).toMatchObject({ status: 503, code: 'upstream_unavailable' })
    expect(failure.message).not.toContain('down for good')
    expect(callsMade).toBe(3)
    expect(await house.charges(key)).toEqual([])
  })

  test('a provider that is busy for a moment: the retry is answered, and charged once', async () => {
    const key = await house.customer()
    await clientOf(key).chat.completions.create(ask('svc/busy-once'))
    expect(callsMade).toBe(2)
    expect(await house.charges(key)).toHaveLength(1)
  })

  test('a stream that breaks off in the middle raises its error after the tokens, which are charged', async () => {
    const key = await house.customer()
    const messages = [{ role: 'user' as const, content: '[[sandbox fail=unavailable fail_after=3]] hello' }]
    const client = clientOf(key)
    const stream = await client.chat.completions.create({ model: 'svc/sandbox', messages, stream: true })
    let read = 0
    const reading = async () => {
      for await (const chunk of stream) if ((chunk.choices[0]?.delta.content ?? '') !== '') read += 1
    }
    expect(await failureOf(reading())).toMatchObject({ code: 'upstream_unavailable' })
    expect(read).toBe(3)
    const [row] = await house.charges(key)
    expect(row).toMatchObject({ outcome: 'interrupted', estimated: true })
  })

  test('too many calls open at once: RateLimitError', async () => {
    // Money must not be what runs out: endless streams spend as fast as they are read ahead.
    const key = await house.customer({ cents: 1_000_000 })
    const client = clientOf(key, { maxRetries: 0 })
    const open = await Promise.all(
      Array.from({ length: 4 }, () => client.chat.completions.create(ask('svc/endless', { stream: true as const }))),
    )
    const failure = await failureOf(client.chat.completions.create(ask('svc/sandbox')))
    expect(failure).toBeInstanceOf(RateLimitError)
    expect(failure).toMatchObject({ status: 429, code: 'stream_limit_exceeded' })
    for (const stream of open) stream.controller.abort()
  })
})

describe('the catalog', () => {
  test('lists models, and gives one by its id', async () => {
    const client = clientOf(await house.customer())
    const ids: string[] = []
    for await (const model of client.models.list()) ids.push(model.id)
    expect(ids).toContain('svc/sandbox')
    expect(await client.models.retrieve('svc/sandbox')).toMatchObject({ id: 'svc/sandbox', object: 'model' })
    expect(await failureOf(client.models.retrieve('svc/nope'))).toBeInstanceOf(NotFoundError)
  })

  test("a request id of the caller's own comes back", async () => {
    const client = clientOf(await house.customer())
    const page = await client.models.list({ headers: { 'X-Request-Id': 'mine-1' } }).withResponse()
    expect(page.request_id).toBe('mine-1')
  })
})

test('embeddings: the format has to be named, and the refusal says so; charged in whole cents', async () => {
  const key = await house.customer()
  const client = clientOf(key)
  const refused = await failureOf(client.embeddings.create({ model: 'vectors', input: 'a' }))
  expect(refused).toBeInstanceOf(BadRequestError)
  expect(refused.message).toMatch(/encoding_format: "float"/)
  const answer = await client.embeddings.create({
    model: 'vectors',
    input: ['one', 'two', 'one'],
    encoding_format: 'float',
    dimensions: 16,
    user: 'someone',
  })
  expect(answer).toMatchObject({ object: 'list', model: 'svc/vectors', usage: { prompt_tokens: 3, total_tokens: 3 } })
  expect(answer.data.map(({ index, embedding }) => [index, embedding.length])).toEqual([
    [0, 16],
    [1, 16],
    [2, 16],
  ])
  expect(answer.data[2]?.embedding).toEqual(answer.data[0]?.embedding ?? [])
  const [row] = await house.charges(key)
  expect(row).toMatchObject({ prompt: 3n, completion: 0n, estimated: false })
  // 3 tokens at 123456.789013 cents a million are less than a cent.
  expect(row?.cost).toBe(1_000_000n)
})

test('images: in base64, charged by the image', async () => {
  const key = await house.customer()
  const client = clientOf(key)
  const answer = await client.images.generate({ model: 'svc/pictures', prompt: 'A toll gate', n: 2, size: '256x256' })
  expect(
    answer.data?.map(({ b64_json: image }) => Buffer.from(image ?? '', 'base64').toString('latin1', 1, 4)),
  ).toEqual(['PNG', 'PNG'])
  expect((await house.charges(key)).map(({ cost }) => cost)).toEqual([8_000_000n])
  const url = await failureOf(client.images.generate({ model: 'svc/pictures', prompt: 'x', response_format: 'url' }))
  expect([url.status, url.code, url.param]).toEqual([400, 'unsupported_parameter', 'response_format'])
})
