import { expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import type { Refusal } from '../lib/errors.ts'
import type { Result } from '../lib/result.ts'
import { HOUR_MS, MINUTE_MS } from '../lib/time.ts'
import { catalogOf } from './assemble.ts'
import { sandboxOffer } from './builtin.ts'
import { type CatalogAnswer, createCatalogEndpoints } from './http.ts'
import { type Catalog, createCatalog, type Model, tierOf } from './model.ts'
import { DEFAULT_DEADLINES } from './provider.ts'
import { ModelListSchema, ModelSchema } from './schemas.ts'
import { DEFAULT_SETTINGS } from './settings.ts'

const [SANDBOX] = sandboxOffer('acme').models
if (SANDBOX === undefined) throw new Error('the sandbox offers nothing')

const FULL: Model = {
  ...SANDBOX,
  id: 'svc/full',
  aliases: ['meta/full', 'full'],
  createdSeconds: 1_700_000_000,
  fineTunable: true,
  fineTuneBaseModel: 'svc/base',
  planCovered: true,
  serverless: tierOf(
    'serverless',
    { kind: 'tokens', inputMicrocents: 1_500_000n, outputMicrocents: 499_999n, cachedInputMicrocents: 499_999n },
    [],
  ),
}
const EMBEDDER: Model = {
  ...SANDBOX,
  id: 'svc/embedder',
  aliases: [],
  modality: 'embedding',
  status: 'coming_soon',
  author: null,
  supportedParameters: [],
  planCovered: false,
  parameters: [{ name: 'dimensions', type: 'int', min: 1, max: 1024 }],
  economy: null,
}
const CATALOG = createCatalog([SANDBOX, FULL, EMBEDDER], [], DEFAULT_DEADLINES)

const query = (text = '') => new URLSearchParams(text)
const clock = new TurnedClock()
const endpoints = createCatalogEndpoints(clock)

function answerOf(result: Result<CatalogAnswer>): CatalogAnswer {
  if (!result.ok) throw new Error(result.refusal.message)
  return result.value
}
function bodyOf(result: Result<CatalogAnswer>) {
  return JSON.parse(new TextDecoder().decode(answerOf(result).bytes ?? new Uint8Array()))
}
function refusalOf(result: Result<CatalogAnswer>): Refusal {
  if (result.ok) throw new Error('was answered')
  return result.refusal
}
const retrieve = (id: string, catalog: Catalog = CATALOG) => endpoints.retrieve(catalog, id, query(), null)

test('the list holds every model in its order, and is as described', async () => {
  const list = bodyOf(await endpoints.list(CATALOG, query(), null))
  expect(ModelListSchema.safeParse(list).success).toBe(true)
  expect(list.object).toBe('list')
  expect(list.data.map((model: { id: string }) => model.id)).toEqual(['svc/sandbox', 'svc/full', 'svc/embedder'])
})

test('a model has every field that is known of it, and no other', () => {
  expect(bodyOf(retrieve('svc/full'))).toEqual({
    id: 'svc/full',
    object: 'model',
    owned_by: 'acme',
    modality: 'chat',
    status: 'active',
    pricing: {
      currency: 'usd',
      input_per_1m_tokens_cents: 2,
      output_per_1m_tokens_cents: 0,
      cached_input_per_1m_tokens_microcents: 499_999,
    },
    aliases: ['meta/full', 'full'],
    category: 'chat',
    context_length: 32_768,
    supported_parameters: ['max_tokens', 'stream', 'stream_options', 'temperature'],
    author: SANDBOX.author,
    created: 1_700_000_000,
    fine_tunable: true,
    fine_tune_base_model: 'svc/base',
    plan_covered: true,
  })
  const embedder = bodyOf(retrieve('svc/embedder'))
  expect(ModelSchema.safeParse(embedder).success).toBe(true)
  expect(embedder.pricing).toEqual({ currency: 'usd', input_per_1m_tokens_cents: 100 })
  expect(embedder.parameters).toEqual([{ name: 'dimensions', type: 'int', min: 1, max: 1024 }])
  for (const absent of ['author', 'fine_tunable', 'plan_covered']) expect(embedder).not.toHaveProperty(absent)
})

test('every model says when it was made: 0 where the settings leave that out', async () => {
  expect(bodyOf(retrieve('svc/full')).created).toBe(1_700_000_000)
  expect(bodyOf(retrieve('svc/embedder')).created).toBe(0)
  for (const model of bodyOf(await endpoints.list(CATALOG, query(), null)).data) expect(model.created).toBeInteger()
})

test('an alias is taken like the id', () => {
  for (const id of ['svc/full', 'full', 'meta/full']) expect(bodyOf(retrieve(id)).id).toBe('svc/full')
})

test("the economy suffix shows the model with that tier's pricing", () => {
  for (const id of ['svc/full:economy', 'meta/full:economy']) {
    const model = bodyOf(retrieve(id))
    expect(model.id).toBe('svc/full')
    expect(model.pricing.input_per_1m_tokens_cents).toBe(50)
  }
})

test('a model that is not there is 404 model_not_found, without a field to blame', () => {
  for (const id of ['svc/none', 'svc%2Ffull', 'svc/full/', '%', '%ff', 'svc/embedder:economy', '..']) {
    const refused = refusalOf(retrieve(id))
    expect(refused.code).toBe('model_not_found')
    expect(refused).not.toHaveProperty('param')
  }
})

test('the list is filtered by modality', async () => {
  const ids = async (text: string) =>
    bodyOf(await endpoints.list(CATALOG, query(text), null)).data.map((model: { id: string }) => model.id)
  expect(await ids('modality=embedding')).toEqual(['svc/embedder'])
  expect(await ids('modality=chat')).toEqual(['svc/sandbox', 'svc/full'])
  expect(await ids('modality=video')).toEqual([])
})

test('a faulty query is refused: an unknown modality 400 invalid_request, an unknown parameter 400 unsupported_parameter', async () => {
  for (const text of ['modality=audio', 'modality=', 'modality=Chat', 'modality=chat&modality=chat']) {
    expect(refusalOf(await endpoints.list(CATALOG, query(text), null))).toMatchObject({
      code: 'invalid_request',
      param: 'modality',
    })
  }
  expect(refusalOf(await endpoints.list(CATALOG, query('limit=3'), null))).toMatchObject({
    code: 'unsupported_parameter',
    param: 'limit',
  })
  const retrieved = endpoints.retrieve(CATALOG, 'svc/full', query('modality=chat'), null)
  expect(refusalOf(retrieved)).toMatchObject({ code: 'unsupported_parameter', param: 'modality' })
})

test('an answer that the client has already is 304 without a body', async () => {
  const { headers } = answerOf(await endpoints.list(CATALOG, query(), null))
  const etag = headers['ETag'] ?? ''
  expect(etag).toMatch(/^"[\w-]{43}"$/)
  for (const ifNoneMatch of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
    expect(answerOf(await endpoints.list(CATALOG, query(), ifNoneMatch))).toMatchObject({
      status: 304,
      bytes: null,
      headers: { ETag: etag },
    })
  }
  for (const ifNoneMatch of ['"x"', etag.slice(1, -1), '']) {
    expect(answerOf(await endpoints.list(CATALOG, query(), ifNoneMatch)).status).toBe(200)
  }
})

test('the tag comes from the content: the same in every process, another for every change', async () => {
  const etagOf = async (catalog: Catalog) =>
    answerOf(await createCatalogEndpoints(clock).list(catalog, query(), null)).headers['ETag']
  const first = await etagOf(catalogOf(DEFAULT_SETTINGS, [], null))
  expect(await etagOf(catalogOf(DEFAULT_SETTINGS, [], null))).toBe(first)
  const renamed = createCatalog([{ ...SANDBOX, author: 'x' }, FULL, EMBEDDER], [], DEFAULT_DEADLINES)
  expect(await etagOf(renamed)).not.toBe(await etagOf(CATALOG))
})

test('the bytes are made once for a catalog, and anew for the next', async () => {
  const first = answerOf(await endpoints.list(CATALOG, query(), null)).bytes
  expect(answerOf(await endpoints.list(CATALOG, query(), null)).bytes).toBe(first)
  const next = createCatalog([FULL], [], DEFAULT_DEADLINES)
  expect(bodyOf(await endpoints.list(next, query(), null)).data).toHaveLength(1)
})

const TIMED: Model = {
  ...SANDBOX,
  id: 'svc/timed',
  aliases: [],
  serverless: tierOf(
    'serverless',
    {
      kind: 'tokens_by_time',
      peak: { inputMicrocents: 2_000_000n, outputMicrocents: 4_000_000n, cachedInputMicrocents: null },
      offPeak: { inputMicrocents: 1_000_000n, outputMicrocents: 3_000_000n, cachedInputMicrocents: null },
      peakWindows: [{ startMinute: 480, endMinute: 1_440 }],
    },
    [],
  ),
  economy: tierOf(
    'economy',
    {
      kind: 'tokens_by_time',
      peak: { inputMicrocents: 20_000_000n, outputMicrocents: 0n, cachedInputMicrocents: null },
      offPeak: { inputMicrocents: 10_000_000n, outputMicrocents: 0n, cachedInputMicrocents: null },
      peakWindows: [{ startMinute: 1_380, endMinute: 60 }],
    },
    [],
  ),
}

test('listings turn at the edges of peak windows, bytes and tag, and turn back the next day', async () => {
  const day = new TurnedClock(Date.UTC(2030, 0, 15))
  const timed = createCatalogEndpoints(day)
  const catalog = createCatalog([SANDBOX, TIMED], [], DEFAULT_DEADLINES)
  const seen = async () => {
    const list = answerOf(await timed.list(catalog, query(), null))
    const plain = answerOf(timed.retrieve(catalog, 'svc/sandbox', query(), null))
    const pricing = (id: string) => bodyOf(timed.retrieve(catalog, id, query(), null)).pricing
    return {
      tag: list.headers['ETag'],
      plainTag: plain.headers['ETag'],
      listed: bodyOf(await timed.list(catalog, query(), null)).data[1].pricing.period,
      serverless: [pricing('svc/timed').period, pricing('svc/timed').input_per_1m_tokens_cents],
      economy: [pricing('svc/timed:economy').period, pricing('svc/timed:economy').input_per_1m_tokens_cents],
    }
  }
  const midnight = await seen()
  expect(midnight).toMatchObject({ listed: 'off_peak', serverless: ['off_peak', 1], economy: ['peak', 20] })
  await day.turn(HOUR_MS)
  expect(await seen()).toMatchObject({ listed: 'off_peak', serverless: ['off_peak', 1], economy: ['off_peak', 10] })
  await day.turn(7 * HOUR_MS - 1)
  const before = await seen()
  expect(before.listed).toBe('off_peak')
  expect(answerOf(await timed.list(catalog, query(), before.tag ?? '')).status).toBe(304)
  await day.turn(1)
  const after = await seen()
  expect(after).toMatchObject({ listed: 'peak', serverless: ['peak', 2], economy: ['off_peak', 10] })
  expect(after.tag).not.toBe(before.tag)
  expect(after.plainTag).toBe(before.plainTag)
  expect(answerOf(await timed.list(catalog, query(), before.tag ?? '')).status).toBe(200)
  await day.turn(15 * HOUR_MS)
  expect(await seen()).toMatchObject({ listed: 'peak', serverless: ['peak', 2], economy: ['peak', 20] })
  await day.turn(HOUR_MS)
  expect(await seen()).toEqual(midnight)
})

test('between two edges the bytes are made once', async () => {
  const day = new TurnedClock(Date.UTC(2030, 0, 15, 8))
  const timed = createCatalogEndpoints(day)
  const catalog = createCatalog([TIMED], [], DEFAULT_DEADLINES)
  const bytes = async () => answerOf(await timed.list(catalog, query(), null)).bytes
  const first = await bytes()
  await day.turn(15 * HOUR_MS - MINUTE_MS)
  expect(await bytes()).toBe(first)
  await day.turn(MINUTE_MS)
  expect(await bytes()).not.toBe(first)
})
