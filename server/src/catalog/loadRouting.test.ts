import { expect, test } from 'bun:test'
import { settingsLoader } from '../../test/settingsLoader.ts'
import { loadSettings } from './load.ts'
import { DEFAULT_ROUTING } from './model.ts'

/** One model, with these lines more; what is wrong with it, or the model. */
function load(serverless: string, economy = '', targets = '{ provider: box }') {
  const pricing = 'pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }'
  const text = `
providers:
  box: { dialect: sandbox }
models:
  - id: svc/one
    context_length: 4096
    ${pricing}
    targets: [${targets}]
    ${serverless}
    economy: { ${pricing}, targets: [{ provider: box }]${economy} }
`
  const loaded = loadSettings(text, { environment: {}, directory: '/', fileExists: () => true })
  return loaded.ok ? (loaded.settings.models?.[0] ?? 'no model') : loaded.problems.map(({ path }) => path).join()
}

test('fields that are left out have their defaults; the economy tier waits for servers that are being started', () => {
  expect(load('')).toMatchObject({
    serverless: { routing: DEFAULT_ROUTING.serverless, targets: [{ provider: 'box', model: 'box' }] },
    economy: { routing: { choice: 'in_order', retries: 0, hedgeAfterMs: null, coldStartMs: 60_000 } },
  })
  expect(DEFAULT_ROUTING.serverless).toEqual({ choice: 'in_order', retries: 0, hedgeAfterMs: null, coldStartMs: 0 })
})

test('each tier has a plan of its own, each target a weight and a place', () => {
  const routing = 'routing: { choice: least_busy, retries: 2, hedge_after_ms: 1500, cold_start_seconds: 2.5 }'
  const targets = '{ provider: box, weight: 3 }, { provider: box, model: other, backup: true }'
  expect(load(routing, ', routing: { choice: weighted, cold_start_seconds: 0 }', targets)).toMatchObject({
    serverless: {
      routing: { choice: 'least_busy', retries: 2, hedgeAfterMs: 1_500, coldStartMs: 2_500 },
      targets: [
        { provider: 'box', model: 'box', weight: 3 },
        { provider: 'box', model: 'other', backup: true },
      ],
    },
    economy: { routing: { choice: 'weighted', coldStartMs: 0 } },
  })
})

const refused: [string, string][] = [
  ['routing: { choice: fastest }', 'models[0].routing.choice'],
  ['routing: { retries: 6 }', 'models[0].routing.retries'],
  ['routing: { hedge_after_ms: 0 }', 'models[0].routing.hedge_after_ms'],
  ['routing: { cold_start_seconds: 601 }', 'models[0].routing.cold_start_seconds'],
  ['routing: { retry: 1 }', 'models[0].routing.retry'],
]
test.each(refused)('refused: %s', (line, path) => {
  expect(load(line)).toBe(path)
})

const unhedged: [string, string][] = [
  ['embedding', 'context_length: 512, pricing: { input_per_1m_tokens_cents: 1 }'],
  ['image', 'pricing: { per_image_cents: 1 }'],
  [
    'video',
    'pricing: { per_video_second_cents: 1 }, parameters: [{ name: seconds, type: int, min: 1, max: 8, default: 4 }]',
  ],
]
test.each(unhedged)('hedging is refused of a model of modality %s, and other routing is not', (modality, fields) => {
  const { problemsOf } = settingsLoader({})
  const text = (routing: string) => `providers: { box: { dialect: sandbox } }
models:
  - { id: svc/one, modality: ${modality}, ${fields}, targets: [{ provider: box }],
      routing: { choice: least_busy${routing} } }
`
  expect(problemsOf(text(''))).toEqual([])
  expect(problemsOf(text(', hedge_after_ms: 500'))).toEqual([
    expect.stringMatching(/^tollgate.yaml:4:\d+: models\[0\].routing.hedge_after_ms: is for chat models: remove it$/),
  ])
})

test.each([['weight: 0'], ['weight: 1001'], ['backup: maybe']])('refused of a target: %s', (more) => {
  expect(load('', '', `{ provider: box, ${more} }`)).toMatch(/^models\[0\]\.targets\[0\]\./)
})
