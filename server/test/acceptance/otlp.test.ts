/** Traces and metrics over OTLP, as a collector at the wire sees them. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type Gateway, openGateway, type TestKey } from '../gateway.ts'
import { scriptVideos } from '../scriptedVideos.ts'
import { until } from '../until.ts'

interface Attribute {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}

interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly attributes: readonly Attribute[]
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly status: { readonly code?: number }
}

const CANARY = 'canary-77d0'
const TRACE = '0af7651916cd43dd8448eb211c80319c'
const received: { path: string; body: string }[] = []
let collector: Server
let endpoint: string
let key: TestKey
let spans: Span[]
/** The ids of the jobs; the client of the second one sent a trace of its own. */
let videos: string[]

/** The value of an attribute, whatever its type. */
function attributeOf({ attributes }: Pick<Span, 'attributes'>, name: string): unknown {
  const value = attributes.find((attribute) => attribute.key === name)?.value ?? {}
  const [inner] = Object.values(value)
  return inner
}

const untilCompleted = (gateway: Gateway, id: string) =>
  until(async () => (await (await gateway.get(key, `/videos/${id}`)).json()).status === 'completed')

beforeAll(async () => {
  collector = createServer(async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece)
    received.push({ path: request.url ?? '', body: Buffer.concat(pieces).toString() })
    response
      .writeHead(request.url?.startsWith('/refusing/') ? 400 : 200, { 'Content-Type': 'application/json' })
      .end('{}')
  })
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve))
  endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`
  const gateway = await openGateway({
    settings: `
otlp: { endpoint: "${endpoint}/" }
providers:
  box: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited }
  gone: { dialect: openai, base_url: "http://127.0.0.1:1/v1" }
models:
  - id: svc/m
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }
    targets: [{ provider: gone, model: theirs }, { provider: box, model: mine }]
  - id: svc/e
    modality: embedding
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100 }
    targets: [{ provider: box, model: vectors }]
  - id: svc/i
    modality: image
    pricing: { per_image_cents: 2 }
    targets: [{ provider: gone, model: theirs }, { provider: box, model: pictures }]
  - id: svc/v
    modality: video
    pricing: { per_video_second_cents: 2 }
    parameters: [{ name: seconds, type: int, min: 1, max: 9, default: 4 }]
    targets: [{ provider: box, model: clips }]
`,
    videos: scriptVideos(),
  })
  key = await gateway.customer()
  const poor = await gateway.customer({ cents: 0 })
  const body = (more: object) => ({ model: 'svc/m', messages: [{ role: 'user', content: CANARY }], ...more })
  const traceparent = { traceparent: `00-${TRACE}-b7ad6b7169203331-01` }
  await (await gateway.post(key, '/chat/completions', body({ max_tokens: 4, temperature: 0.5 }), traceparent)).text()
  await (await gateway.post(key, '/chat/completions', body({ stream: true }))).text()
  await (await gateway.post(poor, '/chat/completions', body({}))).text()
  const broken = { messages: [{ role: 'user', content: '[[sandbox fail=faulty fail_after=2]]' }], stream: true }
  await (await gateway.post(key, '/chat/completions', body(broken))).text()
  const embedding = { model: 'svc/e', input: [CANARY, 'b'], dimensions: 8 }
  await (await gateway.post(key, '/embeddings', embedding, traceparent)).text()
  await (await gateway.post(key, '/images/generations', { model: 'svc/i', prompt: CANARY, n: 2 })).text()
  await (await gateway.post(key, '/images/generations', { model: 'svc/i', prompt: '[[sandbox fail=faulty]]' })).text()
  await (await gateway.post(poor, '/embeddings', { model: 'svc/e', input: 'a' })).text()
  const film = { model: 'svc/v', prompt: CANARY }
  const made = [
    await (await gateway.post(key, '/videos', film)).json(),
    await (await gateway.post(key, '/videos', { ...film, seconds: 2 }, traceparent)).json(),
  ]
  await gateway.post(poor, '/videos', film)
  videos = made.map(({ id }) => id)
  for (const id of videos) await untilCompleted(gateway, id)
  await gateway.close()
  type Traces = { resourceSpans: { scopeSpans: { spans: Span[] }[] }[] }
  spans = received
    .filter(({ path }) => path === '/v1/traces')
    .flatMap(({ body: text }) => (JSON.parse(text) as Traces).resourceSpans)
    .flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans))
}, 60_000)
afterAll(() => {
  collector.closeAllConnections()
  collector.close()
})

const SERVER = 2
const CLIENT = 3
const callsOf = (operation = 'chat') =>
  spans.filter((span) => span.kind === SERVER && attributeOf(span, 'gen_ai.operation.name') === operation)

test("a call is a span with what was asked and what was charged, in the client's own trace", () => {
  const span = callsOf().find(({ traceId }) => traceId === TRACE)
  if (span === undefined) throw new Error('no span')
  expect(span).toMatchObject({ name: 'chat svc/m', parentSpanId: 'b7ad6b7169203331' })
  const expected: Readonly<Record<string, unknown>> = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'tollgate',
    'gen_ai.request.model': 'svc/m',
    'gen_ai.request.max_tokens': 4,
    'gen_ai.request.temperature': 0.5,
    'gen_ai.usage.output_tokens': 4,
    'gen_ai.usage.cache_read.input_tokens': 0,
    'tollgate.organization.id': key.organizationId,
    'tollgate.stream': false,
  }
  for (const [name, value] of Object.entries(expected)) expect([name, attributeOf(span, name)]).toEqual([name, value])
  expect(Number(attributeOf(span, 'gen_ai.usage.input_tokens'))).toBeGreaterThan(0)
  expect(Number(attributeOf(span, 'tollgate.cost.microcents'))).toBeGreaterThan(0)
  expect(attributeOf(span, 'gen_ai.response.finish_reasons')).toEqual({ values: [{ stringValue: 'length' }] })
})

test('its attempts are spans beneath it, the one that failed too', () => {
  const parent = callsOf().find(({ traceId }) => traceId === TRACE)
  const children = spans.filter(({ parentSpanId }) => parentSpanId === parent?.spanId)
  expect(children.map((span) => [span.name, span.kind, attributeOf(span, 'error.type')])).toEqual([
    ['chat theirs', CLIENT, 'unavailable'],
    ['chat mine', CLIENT, undefined],
  ])
  for (const child of children) {
    expect(BigInt(child.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(child.startTimeUnixNano))
  }
})

test('every call ends one span, with why it failed if it did', () => {
  expect(callsOf().map((span) => [attributeOf(span, 'tollgate.stream'), attributeOf(span, 'error.type')])).toEqual([
    [false, undefined],
    [true, undefined],
    [false, 'insufficient_balance'],
    [true, 'interrupted'],
  ])
})

test('embeddings are spans with their own attributes and attempts, and no tokens put out', () => {
  const [span, refused, ...others] = callsOf('embeddings')
  if (span === undefined || refused === undefined) throw new Error('no span')
  expect(others).toEqual([])
  expect(span).toMatchObject({ name: 'embeddings svc/e', traceId: TRACE, parentSpanId: 'b7ad6b7169203331' })
  expect(attributeOf(span, 'gen_ai.embeddings.dimension.count')).toBe(8)
  expect(attributeOf(span, 'tollgate.cost.microcents')).toBe(1_000_000)
  expect(Number(attributeOf(span, 'gen_ai.usage.input_tokens'))).toBeGreaterThan(1)
  expect(attributeOf(span, 'gen_ai.usage.output_tokens')).toBeUndefined()
  const children = spans.filter(({ parentSpanId }) => parentSpanId === span.spanId)
  expect(children.map(({ name, kind }) => [name, kind])).toEqual([['embeddings vectors', CLIENT]])
  expect(attributeOf(refused, 'error.type')).toBe('insufficient_balance')
})

test('images are spans that say what was asked for and delivered, and why they failed', () => {
  const seen = callsOf('generate_content').filter((span) => attributeOf(span, 'gen_ai.output.type') === 'image')
  expect(seen.map(({ name, status }) => [name, status.code ?? 0])).toEqual([
    ['generate_content svc/i', 0],
    ['generate_content svc/i', 2],
  ])
  const [span, failed] = seen
  if (span === undefined || failed === undefined) throw new Error('no span')
  const names = ['gen_ai.output.type', 'gen_ai.request.choice.count', 'tollgate.images', 'tollgate.cost.microcents']
  expect(names.map((name) => attributeOf(span, name))).toEqual(['image', 2, 2, 4_000_000])
  expect(attributeOf(failed, 'error.type')).toBe('upstream_error')
  expect(attributeOf(failed, 'tollgate.cost.microcents')).toBeUndefined()
  const children = spans.filter(({ parentSpanId }) => parentSpanId === span.spanId)
  expect(children.map((child) => [child.name, attributeOf(child, 'error.type')])).toEqual([
    ['generate_content theirs', 'unavailable'],
    ['generate_content pictures', undefined],
  ])
})

test("a video's creation and all that is asked of its provider is one trace, whose id is the job's", () => {
  const [first = '', second = ''] = videos
  const traceOf = (id: string) => spans.filter(({ traceId }) => traceId === id.replaceAll('-', ''))
  const STEPS = [
    ['submit clips', CLIENT],
    ['poll clips', CLIENT],
    ['fetch clips', CLIENT],
  ]
  expect(traceOf(first).map(({ name, kind }) => [name, kind])).toEqual([['generate_content svc/v', SERVER], ...STEPS])
  expect(traceOf(second).map(({ name, kind }) => [name, kind])).toEqual(STEPS)
  for (const span of [...traceOf(first), ...traceOf(second)]) {
    expect(span.parentSpanId ?? '').toBe('')
    expect(attributeOf(span, 'error.type')).toBeUndefined()
  }
  // The client's own trace goes on in that of its request, which names the job.
  const own = callsOf('generate_content').find(({ traceId }) => traceId === TRACE)
  if (own === undefined) throw new Error('no span')
  const names = ['gen_ai.output.type', 'tollgate.video.id', 'tollgate.video.seconds', 'tollgate.organization.id']
  expect(names.map((name) => attributeOf(own, name))).toEqual(['video', second, 2, key.organizationId])
  const refused = callsOf('generate_content').map((span) => attributeOf(span, 'error.type'))
  expect(refused).toContain('insufficient_balance')
})

test('metrics have the durations, first tokens and tokens', () => {
  const bodies = received.filter(({ path }) => path === '/v1/metrics').map(({ body }) => body)
  for (const name of [
    'gen_ai.server.request.duration',
    'gen_ai.server.time_to_first_token',
    'gen_ai.client.operation.duration',
    'gen_ai.client.token.usage',
  ]) {
    expect(bodies.join('')).toContain(`"name":"${name}"`)
  }
})

test('nothing that a client or a model wrote is sent, and no key', () => {
  const sent = received.map(({ body }) => body).join('')
  expect(sent).not.toContain(CANARY)
  expect(sent).not.toContain('simulated')
  expect(sent).not.toContain(key.key)
})

test('a collector that takes nothing is told of in the log, and delays no call', async () => {
  const gateway = await openGateway({ settings: `otlp: { endpoint: "${endpoint}/refusing" }\n` })
  const body = { model: 'svc/sandbox', messages: [{ role: 'user', content: 'hi' }] }
  expect((await gateway.post(await gateway.customer(), '/chat/completions', body)).status).toBe(200)
  await gateway.close()
  const told = gateway.logs.filter((line) => line.includes('does not take what is sent'))
  expect(told.map((line) => JSON.parse(line).what).sort()).toEqual(['metrics', 'traces'])
})

test('the packages are loaded by nothing but the one file that asks for them while running', () => {
  const folder = join(import.meta.dirname, '../../src')
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))
  // An import of types loads nothing.
  const loadedBy = (name: string) => readFileSync(join(folder, name), 'utf8').replaceAll(/^import type .*$/gm, '')
  const importing = files.filter((name) => loadedBy(name).includes('@opentelemetry/'))
  expect(importing).toEqual(['infra/otlp.ts'])
  const lines = readFileSync(join(folder, 'infra/otlp.ts'), 'utf8').split('\n')
  const loading = lines.filter((line) => line.includes('@opentelemetry/') && !line.startsWith('import type'))
  expect(loading.every((line) => line.trimStart().startsWith("import('"))).toBe(true)
})
