/** `POST /embeddings` through the whole gateway: what is refused, what is answered, what it costs. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { shortest } from '../../src/providers/vectors/write.ts'
import { type Gateway, openGateway, type TestKey } from '../gateway.ts'

let gateway: Gateway
let customer: TestKey
let provider: Server
/** The remote server's next answer; `body` is the request's. */
let answer: (response: ServerResponse, body: Record<string, unknown>) => void
let asked: Record<string, unknown>[] = []

beforeAll(async () => {
  provider = createServer(async (request: IncomingMessage, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const body = JSON.parse(Buffer.concat(parts).toString())
    asked.push(body)
    answer(response, body)
  })
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve))
  const remote = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`
  gateway = await openGateway({
    settings: `
deadlines: { first_byte_seconds: 2, whole_seconds: 5 }
providers:
  sandbox: { dialect: sandbox, first_token_ms: 0 }
  remote: { dialect: openai, base_url: "${remote}" }
  away: { dialect: openai, base_url: "http://127.0.0.1:1/v1" }
models:
  - id: svc/chat
    context_length: 100
    pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }
    targets: [{ provider: sandbox }]
  - id: svc/words
    aliases: [words]
    modality: embedding
    context_length: 8192
    pricing: { input_per_1m_tokens_cents: 100 }
    targets: [{ provider: sandbox }]
  - id: svc/remote
    modality: embedding
    context_length: 512
    pricing: { input_per_1m_tokens_cents: 1000000 }
    targets: [{ provider: away, model: r }, { provider: remote, model: r }, { provider: remote, model: second }]
`,
  })
  customer = await gateway.customer()
})
afterAll(async () => {
  await gateway?.close()
  provider.closeAllConnections()
  provider.close()
})

interface Answer {
  readonly object: string
  readonly data: readonly { readonly object: string; readonly index: number; readonly embedding: number[] }[]
  readonly model: string
  readonly usage: object
}

async function embed(body: object, key = customer) {
  asked = []
  const response = await gateway.post(key, '/embeddings', body)
  const json = (await response.json()) as Answer & { error?: { code: string; message: string; param: string | null } }
  return { status: response.status, json, cost: response.headers.get('Svc-Cost-Microcents'), headers: response.headers }
}

async function charges(key: TestKey) {
  return gateway.database.query<{
    cost: bigint
    prompt: bigint
    completion: bigint
    modality: string
    model: string
    estimated: boolean
  }>(
    `select cost_microcents as cost, prompt_tokens as prompt, completion_tokens as completion, modality, model, estimated
     from named_charges where organization_id = $1::uuid order by admitted_at, id`,
    [key.organizationId],
  )
}

const cosine = (a: readonly number[] = [], b: readonly number[] = []) =>
  a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0)

/** An answer as servers give it, of so many vectors. */
const vectors = (list: readonly unknown[], more: object = {}) => ({
  object: 'list',
  data: list.map((embedding, index) => ({ object: 'embedding', index, embedding })),
  model: 'r',
  usage: { prompt_tokens: 7, total_tokens: 7 },
  ...more,
})
const json = (body: unknown) => (response: ServerResponse) => {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}

describe('the sandbox', () => {
  test('answers in the interface’s form, in order, with the canonical id, for a cent at least', async () => {
    const key = await gateway.customer()
    const { status, json, cost } = await embed({ model: 'words', input: ['red apple', 'green pear'], user: 'u1' }, key)
    expect(status).toBe(200)
    expect(Object.keys(json).sort()).toEqual(['data', 'model', 'object', 'usage'])
    expect(json).toMatchObject({ object: 'list', model: 'svc/words', usage: { prompt_tokens: 4, total_tokens: 4 } })
    expect(Object.keys(json.usage).sort()).toEqual(['prompt_tokens', 'total_tokens'])
    expect(json.data.map(({ object, index }) => [object, index])).toEqual([
      ['embedding', 0],
      ['embedding', 1],
    ])
    for (const { embedding } of json.data) {
      expect(embedding).toHaveLength(384)
      expect(cosine(embedding, embedding)).toBeCloseTo(1, 5)
    }
    expect(cost).toBe('1000000')
    expect(await charges(key)).toEqual([
      { cost: 1_000_000n, prompt: 4n, completion: 0n, modality: 'embedding', model: 'svc/words', estimated: false },
    ])
  })

  test('texts that share words are near each other, others are not, and the same text is the same vector', async () => {
    const input = [
      'The cat sat on the mat.',
      'A cat was sitting on a mat',
      'Quarterly revenue rose by 4 percent',
      'The cat sat on the mat.',
    ]
    const [cat, cats, revenue, again] = (await embed({ model: 'svc/words', input })).json.data.map((d) => d.embedding)
    expect(cosine(cat, again)).toBeCloseTo(1, 5)
    expect(cosine(cat, cats)).toBeGreaterThan(0.35)
    expect(cosine(cat, revenue)).toBeLessThan(0.2)
  })

  test('makes as many dimensions as are asked for', async () => {
    const { json } = await embed({ model: 'svc/words', input: 'hello', dimensions: 12 })
    expect(json.data[0]?.embedding).toHaveLength(12)
    expect((await embed({ model: 'svc/words', input: 'hello', dimensions: 5_000 })).status).toBe(400)
  })

  test('2048 texts are taken in one request, and their numbers are 32-bit floats', async () => {
    const input = Array.from({ length: 2_048 }, (_, index) => `text ${index}`)
    const { status, json } = await embed({ model: 'svc/words', input, dimensions: 64 })
    expect(status).toBe(200)
    expect(json.data.map(({ index }) => index)).toEqual(input.map((_, index) => index))
    const single = (await embed({ model: 'svc/words', input: 'text 2047', dimensions: 64 })).json.data[0]?.embedding
    expect(json.data[2_047]?.embedding).toEqual(single ?? [])
    const numbers = json.data.flatMap(({ embedding }) => embedding)
    // Written as short as they can be: what is read back, rounded to 32 bits and written again is the same.
    expect(numbers.every((value) => shortest(Math.fround(value)) === String(value))).toBe(true)
  })

  test('more than a cent is rounded up to the next', async () => {
    const { cost } = await embed({ model: 'svc/words', input: `[[sandbox prompt_tokens=8192]] ${'x'.repeat(8_192)}` })
    // 8192 tokens at 100 cents a million are 0.8192 cents.
    expect(cost).toBe('1000000')
    const key = await gateway.customer({ cents: 0 })
    expect((await embed({ model: 'svc/words', input: 'x' }, key)).json.error?.code).toBe('insufficient_balance')
  })

  test.each([
    ['fail=unavailable', 503, 'upstream_unavailable'],
    ['fail=timeout', 504, 'upstream_timeout'],
    ['fail=faulty', 502, 'upstream_error'],
    ['fail=context_length', 400, 'context_length_exceeded'],
    ['tokens=3', 400, 'invalid_request'],
  ])('the directive %s', async (directive, status, code) => {
    const key = await gateway.customer()
    const failed = await embed({ model: 'svc/words', input: `[[sandbox ${directive}]]` }, key)
    expect([failed.status, failed.json.error?.code]).toEqual([status, code])
    expect(await charges(key)).toEqual([])
  })
})

describe('refused, before anything is done', () => {
  const words = { model: 'svc/words', input: 'x' }
  test.each<[string, object, number, string, string, RegExp]>([
    ['over 2048', { ...words, input: new Array(2_049).fill('x') }, 400, 'invalid_request', 'input', /at most 2048/],
    ['an empty text', { ...words, input: '' }, 400, 'invalid_request', 'input', /empty/],
    ['an empty list', { ...words, input: [] }, 400, 'invalid_request', 'input', /at least one/],
    ['an empty text in a list', { ...words, input: ['a', ''] }, 400, 'invalid_request', 'input', /index 1/],
    ['token ids', { ...words, input: [1, 2] }, 400, 'invalid_request', 'input', /token ids/],
    ['lists of token ids', { ...words, input: [[1], [2]] }, 400, 'invalid_request', 'input', /token ids/],
    ['a number', { ...words, input: 1 }, 400, 'invalid_request', 'input', /string/],
    ['nothing', { model: 'svc/words' }, 400, 'invalid_request', 'input', /required/],
    ['null', { ...words, input: null }, 400, 'invalid_request', 'input', /required/],
    ['no model', { input: 'x' }, 400, 'invalid_request', 'model', /required/],
    ['no dimensions', { ...words, dimensions: 0 }, 400, 'invalid_request', 'dimensions', />=1|at least/],
    ['base64', { ...words, encoding_format: 'base64' }, 400, 'unsupported_parameter', 'encoding_format', /"float"/],
    ['another format', { ...words, encoding_format: 'int8' }, 400, 'invalid_request', 'encoding_format', /float/],
    [
      'several of them, beside a wrong input',
      { input: [], truncate: true, priority: 1 },
      400,
      'unsupported_parameter',
      'truncate',
      /'truncate' and 'priority' are not supported/,
    ],
    ['what is not known', { ...words, truncate: true }, 400, 'unsupported_parameter', 'truncate', /truncate/],
    ['a chat model', { ...words, model: 'svc/chat' }, 404, 'model_not_found', 'model', /modality is 'chat'/],
    ['an unknown model', { ...words, model: 'svc/x' }, 404, 'model_not_found', 'model', /does not exist/],
    [
      'a text far beyond the context',
      { ...words, input: 'x'.repeat(8_192 * 64 + 1) },
      400,
      'context_length_exceeded',
      'input',
      /the text is far longer/,
    ],
    [
      'one of several far beyond it, by its bytes',
      { ...words, input: ['x', 'ä'.repeat(8_192 * 32 + 1)] },
      400,
      'context_length_exceeded',
      'input',
      /index 1 is far longer/,
    ],
    [
      'more numbers than fit',
      { ...words, input: new Array(2_000).fill('x'), dimensions: 65_536 },
      502,
      'upstream_response_too_large',
      '',
      /fewer/,
    ],
  ])('%s', async (_name, body, status, code, param, message) => {
    const refused = await embed(body)
    expect([refused.status, refused.json.error?.code, refused.json.error?.param ?? '']).toEqual([status, code, param])
    expect(refused.json.error?.message).toMatch(message)
    expect(await charges(customer).then((rows) => rows.filter(({ model }) => model === 'svc/remote'))).toEqual([])
  })
})

describe('a server of OpenAI’s form', () => {
  test('is sent what the client said, under its own name for the model, and asked for floats', async () => {
    answer = json(vectors([[0.1, 1e-9, -3]]))
    const key = await gateway.customer()
    const { status, json: body, cost } = await embed({ model: 'svc/remote', input: 'x', dimensions: 3, user: 'u' }, key)
    expect(status).toBe(200)
    expect(asked).toEqual([{ model: 'r', input: ['x'], encoding_format: 'float', dimensions: 3, user: 'u' }])
    expect(body.data[0]?.embedding.map(Math.fround)).toEqual([0.1, 1e-9, -3].map(Math.fround))
    expect(body.usage).toEqual({ prompt_tokens: 7, total_tokens: 7 } as never)
    // 7 tokens at 1 cent each.
    expect(cost).toBe('7000000')
  })

  test('its order is by index, its base64 is read', async () => {
    const base64 = Buffer.from(Float32Array.of(0.5, -2).buffer).toString('base64')
    answer = json({
      data: [
        { index: 1, embedding: [3, 4] },
        { index: 0, embedding: base64 },
      ],
      usage: {},
    })
    const key = await gateway.customer()
    const { json: body } = await embed({ model: 'svc/remote', input: ['a', 'b b b'] }, key)
    expect(body.data.map(({ embedding }) => embedding)).toEqual([
      [0.5, -2],
      [3, 4],
    ])
    // Nothing was reported: counted here, and said so.
    const [charge] = await charges(key)
    expect(charge?.estimated).toBe(true)
    expect(charge?.prompt).toBeGreaterThan(0n)
  })

  test('that claims more tokens than a text can have: counted here, and never charged above the hold', async () => {
    answer = json(vectors([[1]], { usage: { prompt_tokens: 512, total_tokens: 512 } }))
    const key = await gateway.customer({ cents: 20 })
    const { status, json: body, cost } = await embed({ model: 'svc/remote', input: 'x' }, key)
    // One token at a cent each: 512 would have taken the balance far below zero.
    expect([status, body.usage, cost]).toEqual([200, { prompt_tokens: 1, total_tokens: 1 }, '1000000'])
    expect(await charges(key)).toMatchObject([{ prompt: 1n, estimated: true }])
  })

  test('a text of as many bytes as the context can be asked with is sent; where the balance is short that is said after it', async () => {
    answer = json(vectors([[1]], { usage: { prompt_tokens: 512 } }))
    const most = 'word '.repeat((512 * 64) / 5)
    const sent = await embed({ model: 'svc/remote', input: most }, await gateway.customer({ cents: 1_000 }))
    expect([sent.status, sent.cost]).toEqual([200, '512000000'])
    const poor = await gateway.customer({ cents: 0 })
    expect((await embed({ model: 'svc/remote', input: most }, poor)).json.error?.code).toBe('insufficient_balance')
    const beyond = await embed({ model: 'svc/remote', input: `${most}word ` }, poor)
    expect(beyond.json.error?.code).toBe('context_length_exceeded')
  })

  const item = (index: unknown, embedding: unknown) => ({ index, embedding })
  test.each<[string, unknown]>([
    ['HTML', '<html>'],
    ['half of it', JSON.stringify(vectors([[1], [2]])).slice(0, -20)],
    ['no list', { data: {} }],
    ['an error', { error: { message: 'no', code: 500 } }],
    ['one vector too few', vectors([[1]])],
    ['one vector too many', vectors([[1], [2], [3]])],
    ['one of them twice', { data: [item(0, [1]), item(0, [2])] }],
    ['an index that is none', { data: [item(0, [1]), item(2, [2])] }],
    ['vectors of two lengths', vectors([[1], [2, 3]])],
    ['empty vectors', vectors([[], []])],
    ['text for numbers', vectors([['1'], ['2']])],
    ['numbers beyond floats', '{"data":[{"index":0,"embedding":[1e39]},{"index":1,"embedding":[1]}]}'],
    ['base64 of nothing', vectors(['!', '!'])],
  ])('that answers %s: 502, and nothing is charged', async (_name, body) => {
    answer = json(body)
    const key = await gateway.customer()
    const { status, json: refused } = await embed({ model: 'svc/remote', input: ['a', 'b'] }, key)
    expect([status, refused.error?.code]).toEqual([502, 'upstream_error'])
    expect(asked).toHaveLength(1)
    expect(await charges(key)).toEqual([])
  })

  test.each<[string, (response: ServerResponse) => void]>([
    [
      'announces more than 64 MiB',
      (response) => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': `${(64 << 20) + 1}` })
        response.write('{')
      },
    ],
    [
      'sends more than 64 MiB',
      (response) => {
        response.on('error', () => {})
        response.writeHead(200, { 'content-type': 'application/json' })
        for (let sent = 0; sent < 65; sent += 1) response.write(Buffer.alloc(1 << 20, 0x20))
        response.end()
      },
    ],
  ])('that %s: 502 in words of its own', async (_name, send) => {
    answer = send
    const key = await gateway.customer()
    const { status, json: refused } = await embed({ model: 'svc/remote', input: 'x' }, key)
    expect([status, refused.error?.code]).toEqual([502, 'upstream_response_too_large'])
    expect(refused.error?.message).toMatch(/fewer inputs/)
    expect(await charges(key)).toEqual([])
  })

  test.each([
    [503, 503, 'upstream_unavailable', 2],
    [429, 503, 'upstream_unavailable', 2],
    [404, 502, 'upstream_error', 1],
    [400, 400, 'invalid_request', 1],
  ])('that answers %d', async (theirs, ours, code, times) => {
    answer = (response) => response.writeHead(theirs, { 'content-type': 'application/json' }).end('{}')
    const { status, json: refused } = await embed({ model: 'svc/remote', input: 'x' })
    expect([status, refused.error?.code, asked.length]).toEqual([ours, code, times])
  })

  test('that is busy: the next target answers, and one charge is made', async () => {
    answer = (response, body) =>
      body['model'] === 'r' ? response.writeHead(503).end() : json(vectors([[1]]))(response)
    const key = await gateway.customer()
    expect((await embed({ model: 'svc/remote', input: 'x' }, key)).status).toBe(200)
    expect(asked.map(({ model }) => model)).toEqual(['r', 'second'])
    expect(await charges(key)).toHaveLength(1)
  })

  test('large answers go through the other thread and come out the same', async () => {
    const big = Array.from({ length: 200 }, (_, row) =>
      Array.from({ length: 512 }, (_, column) => (row * 512 + column) / 1e6),
    )
    answer = json(vectors(big))
    const key = await gateway.customer({ cents: 100_000 })
    const input = big.map((_, index) => `t${index}`)
    const { status, json: body } = await embed({ model: 'svc/remote', input }, key)
    expect(status).toBe(200)
    expect(body.data.map(({ embedding }) => embedding.map(Math.fround))).toEqual(big.map((row) => row.map(Math.fround)))
  })
})
