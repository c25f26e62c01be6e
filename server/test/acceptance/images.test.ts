/** `POST /images/generations` through the whole gateway: what is refused, what is answered, what it costs. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { drawText } from '../../src/providers/sandbox/picture.ts'
import { type Gateway, openGateway, type TestKey } from '../gateway.ts'

let gateway: Gateway
let customer: TestKey
let provider: Server
/** The remote server's next answer. */
let answer: (response: ServerResponse) => void
let asked: Record<string, unknown>[] = []
/** Images of these sizes, as servers send them. */
let small: string
let large: string

beforeAll(async () => {
  provider = createServer(async (request: IncomingMessage, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    asked.push(JSON.parse(Buffer.concat(parts).toString()))
    answer(response)
  })
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve))
  const remote = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`
  const priced = (id: string, price: string, target: string, parameters: string) => `
  - id: svc/${id}
    aliases: [${id}]
    modality: image
    pricing: { ${price} }
    parameters:
      - { name: n, type: int, min: 1, max: 4, default: 1 }
      ${parameters}
    targets: [${target}]`
  const sizes = '- { name: size, type: enum, enum: ["64x64", "100x50", "1000x1000"], default: "64x64" }'
  gateway = await openGateway({
    settings: `
providers:
  sandbox: { dialect: sandbox, first_token_ms: 0 }
  remote: { dialect: openai, base_url: "${remote}" }
  drawer: { dialect: sdcpp, base_url: "${remote}" }
  away: { dialect: openai, base_url: "http://127.0.0.1:1/v1" }
models:
  - id: svc/chat
    context_length: 100
    pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }
    targets: [{ provider: sandbox }]
  - id: svc/plain
    modality: image
    pricing: { per_image_microcents: 1500001 }
    targets: [{ provider: sandbox }]
${priced('fox', 'per_image_cents: 3', '{ provider: sandbox }', sizes)}
${priced('area', 'per_mpxl_microcents: 3333333', '{ provider: remote, model: r }', sizes)}
${priced('pair', 'per_image_cents: 2', '{ provider: away, model: r }, { provider: remote, model: r }, { provider: remote, model: second }', sizes)}
${priced('drawn', 'per_image_cents: 1', '{ provider: drawer, model: sd }', sizes)}
`,
  })
  customer = await gateway.customer()
  small = (await drawText(['small'], { width: 64, height: 64 }, 1)).toString('base64')
  large = (await drawText(['large'], { width: 1_000, height: 1_000 }, 1)).toString('base64')
})
afterAll(async () => {
  await gateway?.close()
  provider.closeAllConnections()
  provider.close()
})

interface Answer {
  readonly created: number
  readonly data: readonly { readonly b64_json: string }[]
  readonly usage: object
  readonly error?: { readonly code: string; readonly message: string; readonly param: string | null }
}

async function draw(body: object, key = customer) {
  asked = []
  const response = await gateway.post(key, '/images/generations', body)
  return {
    status: response.status,
    json: (await response.json()) as Answer,
    cost: response.headers.get('Svc-Cost-Microcents'),
  }
}

async function charges(key: TestKey) {
  return gateway.database.query<{ cost: bigint; images: number; pixels: bigint; modality: string; prompt: bigint }>(
    `select cost_microcents as cost, image_count as images, image_pixels as pixels, modality, prompt_tokens as prompt
     from named_charges where organization_id = $1::uuid order by admitted_at, id`,
    [key.organizationId],
  )
}

const sending = (body: unknown) => (response: ServerResponse) => {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}
const images = (...list: unknown[]) => ({ created: 1, data: list.map((image) => ({ b64_json: image })) })

/** Width and height of a PNG. */
const sizeOf = (base64 = '') => {
  const bytes = Buffer.from(base64, 'base64')
  expect(bytes.subarray(1, 4).toString()).toBe('PNG')
  return [bytes.readUInt32BE(16), bytes.readUInt32BE(20)]
}

describe('the sandbox', () => {
  test('draws PNGs of the size that is asked for, each its own, and is charged by the image', async () => {
    const key = await gateway.customer()
    const { status, json, cost } = await draw({ model: 'fox', prompt: 'A red fox', n: 3, size: '100x50' }, key)
    expect(status).toBe(200)
    expect(Object.keys(json).sort()).toEqual(['created', 'data', 'usage'])
    expect(json.usage).toEqual({ image_count: 3 })
    expect(json.data.map(({ b64_json }) => sizeOf(b64_json))).toEqual(new Array(3).fill([100, 50]))
    expect(new Set(json.data.map(({ b64_json }) => b64_json)).size).toBe(3)
    expect(cost).toBe('9000000')
    expect(await charges(key)).toEqual([
      { cost: 9_000_000n, images: 3, pixels: 15_000n, modality: 'image', prompt: 0n },
    ])
  })

  test('one image of the default size where nothing is said, the same for the same prompt', async () => {
    const first = (await draw({ model: 'svc/fox', prompt: 'x', response_format: 'b64_json' })).json.data
    expect(first.map(({ b64_json }) => sizeOf(b64_json))).toEqual([[64, 64]])
    expect((await draw({ model: 'svc/fox', prompt: 'x' })).json.data).toEqual(first)
    expect((await draw({ model: 'svc/fox', prompt: 'y' })).json.data).not.toEqual(first)
  })

  test('an odd price is charged to the micro-cent', async () => {
    expect((await draw({ model: 'svc/plain', prompt: 'x', n: 3 })).cost).toBe('4500003')
  })

  test.each([
    ['fail=unavailable', 503, 'upstream_unavailable'],
    ['fail=timeout', 504, 'upstream_timeout'],
    ['fail=faulty', 502, 'upstream_error'],
    ['fail=rejected', 400, 'invalid_request'],
    ['tokens=3', 400, 'invalid_request'],
  ])('the directive %s: nothing is charged', async (directive, status, code) => {
    const key = await gateway.customer()
    const failed = await draw({ model: 'svc/fox', prompt: `[[sandbox ${directive}]]` }, key)
    expect([failed.status, failed.json.error?.code]).toEqual([status, code])
    expect(await charges(key)).toEqual([])
  })
})

describe('refused', () => {
  const fox = { model: 'svc/fox', prompt: 'x' }
  test.each<[string, object, number, string, string]>([
    ['no prompt', { model: 'svc/fox' }, 422, 'validation_failed', 'prompt'],
    ['an empty prompt', { ...fox, prompt: '' }, 422, 'validation_failed', 'prompt'],
    ['no images', { ...fox, n: 0 }, 422, 'validation_failed', 'n'],
    ['half an image', { ...fox, n: 1.5 }, 422, 'validation_failed', 'n'],
    ['more than the model makes', { ...fox, n: 5 }, 400, 'invalid_request', 'n'],
    [
      'more than ten of a model that says nothing',
      { model: 'svc/plain', prompt: 'x', n: 11 },
      400,
      'invalid_request',
      'n',
    ],
    ['a size that is none', { ...fox, size: 'large' }, 422, 'validation_failed', 'size'],
    ['a size that the model has not', { ...fox, size: '65x65' }, 400, 'invalid_request', 'size'],
    [
      'a size where the model takes none',
      { model: 'svc/plain', prompt: 'x', size: '64x64' },
      400,
      'unsupported_parameter',
      'size',
    ],
    ['a URL', { ...fox, response_format: 'url' }, 400, 'unsupported_parameter', 'response_format'],
    ['another format', { ...fox, response_format: 'x' }, 422, 'validation_failed', 'response_format'],
    ['what is not known', { ...fox, quality: 'hd' }, 400, 'unsupported_parameter', 'quality'],
    ['a chat model', { ...fox, model: 'svc/chat' }, 404, 'model_not_found', 'model'],
    ['an unknown model', { ...fox, model: 'svc/x' }, 404, 'model_not_found', 'model'],
  ])('%s', async (_name, body, status, code, param) => {
    const { status: seen, json } = await draw(body)
    expect([seen, json.error?.code, json.error?.param]).toEqual([status, code, param])
  })

  test('more than the balance pays for, before anybody is asked', async () => {
    const key = await gateway.customer({ cents: 5 })
    const { status, json } = await draw({ model: 'svc/pair', prompt: 'x', n: 3 }, key)
    expect([status, json.error?.code, asked.length]).toEqual([402, 'insufficient_balance', 0])
  })
})

describe('a server of OpenAI’s form', () => {
  test('is sent what was asked for; megapixels are those of the images that it sends', async () => {
    answer = sending(images(small, small))
    const key = await gateway.customer()
    const { json, cost } = await draw({ model: 'area', prompt: 'x', n: 2, size: '1000x1000' }, key)
    expect(asked).toEqual([{ model: 'r', prompt: 'x', n: 2, size: '1000x1000', response_format: 'b64_json' }])
    expect(json.data.map(({ b64_json }) => b64_json)).toEqual([small, small])
    // 8192 pixels at 3.333333 cents a million, rounded up once.
    expect(cost).toBe(`${Math.ceil((8_192 * 3_333_333) / 1e6)}`)
    expect((await charges(key))[0]).toMatchObject({ images: 2, pixels: 8_192n })
  })

  test('that sends more or larger images than were asked for does so at its own expense', async () => {
    answer = sending(images(large, large, large))
    const key = await gateway.customer()
    const { json, cost } = await draw({ model: 'area', prompt: 'x', n: 2, size: '64x64' }, key)
    expect(json.usage).toEqual({ image_count: 2 })
    expect(cost).toBe(`${Math.ceil((8_192 * 3_333_333) / 1e6)}`)
  })

  test('that delivers a part is paid for that part', async () => {
    answer = sending(images(small, 'not base64', null, Buffer.from('no image').toString('base64')))
    const key = await gateway.customer()
    const { json, cost } = await draw({ model: 'pair', prompt: 'x', n: 4 }, key)
    expect(json.data.map(({ b64_json }) => b64_json)).toEqual([small])
    expect(cost).toBe('2000000')
  })

  test.each<[string, unknown]>([
    ['HTML', '<html>'],
    ['half of it', JSON.stringify({ data: [{ b64_json: 'x' }] }).slice(0, -5)],
    ['no list', {}],
    ['no images', images()],
    ['addresses', { data: [{ url: 'http://x.test/image.png' }] }],
    ['bytes that are no image', images(Buffer.from('GIF89a, or so').toString('base64'))],
    ['a PNG of no size', images(Buffer.from(pngOfNoSize()).toString('base64'))],
  ])('that answers %s: 502, nothing is charged, and nobody else is asked', async (_name, body) => {
    answer = sending(body)
    const key = await gateway.customer()
    const { status, json } = await draw({ model: 'pair', prompt: 'x' }, key)
    expect([status, json.error?.code, asked.length]).toEqual([502, 'upstream_error', 1])
    expect(await charges(key)).toEqual([])
  })

  test.each<[string, (response: ServerResponse) => void, number]>([
    ['breaks off without an answer', (response) => response.destroy(), 1],
    ['is behind a proxy that gave up', (response) => response.writeHead(504).end(), 1],
    ['says that it is busy', (response) => response.writeHead(429).end(), 2],
  ])('that %s', async (_name, send, times) => {
    answer = send
    const key = await gateway.customer()
    const { status, json } = await draw({ model: 'pair', prompt: 'x' }, key)
    expect([status, json.error?.code, asked.length]).toEqual([503, 'upstream_unavailable', times])
    expect(await charges(key)).toEqual([])
  })
})

describe('stable-diffusion.cpp', () => {
  test('is given a seed of its own for each call', async () => {
    answer = sending({ ...images(small), output_format: 'png' })
    expect((await draw({ model: 'drawn', prompt: 'a cat', n: 1, size: '64x64' })).status).toBe(200)
    const prompt = 'a cat<sd_cpp_extra_args>{"seed":-1}</sd_cpp_extra_args>'
    expect(asked).toEqual([{ model: 'sd', prompt, n: 1, size: '64x64', output_format: 'png' }])
  })

  test('is never sent settings that a client has put into its prompt', async () => {
    const prompt = 'a cat<sd_cpp_extra_args>{"steps":9999}</sd_cpp_extra_args>'
    const { status, json } = await draw({ model: 'drawn', prompt })
    expect([status, json.error?.code, asked.length]).toEqual([400, 'invalid_request', 0])
    expect(json.error?.message).toMatch(/sd_cpp_extra_args/)
  })
})

/** The head of a PNG that says it has no width. */
function pngOfNoSize(): Uint8Array {
  const bytes = Buffer.alloc(64)
  Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13]).copy(bytes)
  bytes.write('IHDR', 12)
  return bytes
}
