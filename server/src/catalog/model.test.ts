import { expect, test } from 'bun:test'
import { catalogOf } from './assemble.ts'
import { sandboxOffer } from './builtin.ts'
import { discoveredId, discoveredOffer } from './discovered.ts'
import { createCatalog, lookUp, lookUpForCall, type Model, tiersOf } from './model.ts'
import { DEFAULT_DEADLINES } from './provider.ts'
import { DEFAULT_SETTINGS } from './settings.ts'

const [SANDBOX] = sandboxOffer('svc').models
if (SANDBOX === undefined) throw new Error('the sandbox offers nothing')

function catalogWith(...models: Model[]) {
  return createCatalog(models, [], DEFAULT_DEADLINES)
}
const soon: Model = { ...SANDBOX, id: 'svc/soon', aliases: ['soon/x'], status: 'coming_soon', economy: null }
const gone: Model = { ...SANDBOX, id: 'svc/gone', aliases: [], status: 'deprecated' }
const embedder: Model = { ...SANDBOX, id: 'svc/embedder', aliases: [], modality: 'embedding' }
const CATALOG = catalogWith(SANDBOX, soon, gone, embedder)

test('a model is found by id and alias, and its economy tier by the suffix', () => {
  for (const name of ['svc/sandbox', 'sandbox', 'svc/sandbox:economy', 'sandbox:economy']) {
    const found = CATALOG.find(name)
    if (found.kind !== 'found') throw new Error(name)
    expect(found.model.id).toBe('svc/sandbox')
    expect(found.tier.name).toBe(name.endsWith(':economy') ? 'economy' : 'serverless')
  }
  expect(CATALOG.find('soon/x:economy').kind).toBe('no_tier')
})

const CALLS: readonly (readonly [string, RegExp | null])[] = [
  ['svc/sandbox', null],
  ['svc/soon', /'svc\/soon' can't be called: its status is 'coming_soon'/],
  ['svc/gone:economy', /its status is 'deprecated'/],
  ['svc/soon:economy', /'svc\/soon' has no economy tier: leave out ':economy'/],
  ['svc/embedder', /its modality is 'embedding', not 'chat'/],
  ['svc/SANDBOX', /does not exist: GET \/v1\/models/],
  ['svc/sandbox:economy:economy', /does not exist/],
  [':economy', /does not exist/],
  ['', /does not exist/],
  ['__proto__', /does not exist/],
  ['x'.repeat(10_000), /'x{128}…' does not exist/],
]
for (const [name, expected] of CALLS) {
  test(`calling '${name.slice(0, 40)}' ${expected === null ? 'is served' : 'is 404 model_not_found'}`, () => {
    const result = lookUpForCall(CATALOG, name, 'chat')
    expect(result.ok).toBe(expected === null)
    if (result.ok || expected === null) return
    expect(result.refusal).toMatchObject({ code: 'model_not_found', param: 'model' })
    expect(result.refusal.message).toMatch(expected)
  })
}

test('models that can not be called can be read', () => {
  expect(lookUp(CATALOG, 'svc/soon').ok).toBe(true)
  expect(lookUp(CATALOG, 'svc/gone').ok).toBe(true)
})

test('every tier of every model has a price version to be stored', () => {
  expect(tiersOf(CATALOG).map((tier) => tier.priceHash.length)).toEqual([32, 32, 32, 32, 32, 32, 32])
})

test('without a settings file simulated models are served, in whole cents, the one that chats with an economy tier', () => {
  const catalog = catalogOf(DEFAULT_SETTINGS, [], null)
  expect(catalog.models.map(({ id, modality }) => [id, modality])).toEqual([
    ['svc/sandbox', 'chat'],
    ['svc/sandbox-embedding', 'embedding'],
    ['svc/sandbox-image', 'image'],
    ['svc/sandbox-video', 'video'],
  ])
  const [model] = catalog.models
  expect(model?.author).toMatch(/simulated/i)
  expect(model?.economy).not.toBeNull()
  for (const { price, targets } of tiersOf(catalog)) {
    const amounts = Object.values(price).filter((amount) => typeof amount === 'bigint')
    expect(amounts.every((amount) => amount % 1_000_000n === 0n)).toBe(true)
    expect(amounts.some((amount) => amount > 0n)).toBe(true)
    expect(targets.every((target) => catalog.providers.has(target.provider))).toBe(true)
  }
})

test("a discovered name becomes an id of ours, the provider's name its alias (M1)", () => {
  for (const [name, id] of [
    ['llama3.2:1b', 'svc/llama3.2-1b'],
    ['meta-llama/Llama-3.3-70B-Instruct', 'svc/meta-llama-llama-3.3-70b-instruct'],
    ['_x_', 'svc/x'],
    ['模型', null],
    ['a'.repeat(300), `svc/${'a'.repeat(100)}`],
  ] as const) {
    expect(discoveredId(name)).toBe(id)
  }
})

test('a found model is offered at its price, and takes no name that is taken', () => {
  const price = DEFAULT_SETTINGS.fixed.discoveredPrice
  const offer = discoveredOffer(
    [
      {
        kind: 'http',
        product: 'Ollama',
        baseUrl: 'http://127.0.0.1:11434/v1',
        models: ['a:1', 'a-1', 'a:1', '模型', 'x:economy'],
        embeddingModels: ['e:1'],
      },
      {
        kind: 'http',
        product: 'vLLM',
        baseUrl: 'http://127.0.0.1:8000/v1',
        models: ['a:1', 'svc/sandbox', 'sandbox'],
        embeddingModels: [],
      },
      { kind: 'gguf', file: '/data/models/tiny.gguf', name: 'tiny' },
    ],
    price,
    'svc',
    ['svc/sandbox', 'sandbox'],
  )
  const names = offer.models.map(({ id, aliases }) => [id, ...aliases])
  expect(names).toEqual([
    ['svc/a-1', 'a:1'],
    ['svc/a-1-2', 'a-1'],
    ['svc/a-1-3'],
    ['svc/x-economy'],
    ['svc/e-1', 'e:1'],
    ['svc/a-1-4'],
    ['svc/svc-sandbox'],
    ['svc/sandbox-2'],
    ['svc/tiny', 'tiny'],
  ])
  expect(offer.providers.map((provider) => provider.name)).toEqual([
    'discovered-1-ollama',
    'discovered-2-vllm',
    'discovered-3-tiny',
  ])
  const [embedding, ...others] = offer.models.filter(({ modality }) => modality === 'embedding')
  expect([embedding?.id, others.length]).toEqual(['svc/e-1', 0])
  expect(embedding).toMatchObject({ maxOutputTokens: 0, supportedParameters: [] })
  expect(embedding?.serverless.price).toMatchObject({ ...price, outputMicrocents: 0n })
  const chat = offer.models.filter((model) => model !== embedding)
  expect(chat.every((model) => model.serverless.price === price)).toBe(true)
  expect(() => createCatalog(offer.models, offer.providers, DEFAULT_DEADLINES)).not.toThrow()
})
