/** The books of embeddings and images: charges, rollups, usage, plans, and what the verification makes of them. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { findImbalances } from '../../src/billing/charges/store.ts'
import { verifyAll } from '../../src/billing/ledger/verifyAll.ts'
import { planCheck } from '../../src/billing/plans/verify.ts'
import { systemClock } from '../../src/infra/clock.ts'
import { type Gateway, openGateway, type TestKey } from '../gateway.ts'
import { subscribe } from './plans.ts'

const AFTERNOON_MS = Date.UTC(2031, 4, 17, 13)
/** Goes on as the wall's, on the afternoon of another day. */
const aheadMs = AFTERNOON_MS - systemClock.now()
const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }

let gateway: Gateway
let customer: TestKey
let subscriber: TestKey

const SETTINGS = `
providers:
  sandbox: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited }
models:
  - id: svc/talk
    context_length: 512
    plan_covered: true
    pricing: { input_per_1m_tokens_microcents: 1234567, output_per_1m_tokens_microcents: 7654321 }
    targets: [{ provider: sandbox }]
  - id: svc/words
    modality: embedding
    context_length: 512
    plan_covered: true
    pricing: { input_per_1m_tokens_cents: 10000 }
    targets: [{ provider: sandbox }]
  - id: svc/picture
    modality: image
    plan_covered: true
    pricing: { per_mpxl_microcents: 3333333 }
    parameters: [{ name: size, type: enum, enum: ["100x70"], default: "100x70" }]
    targets: [{ provider: sandbox }]
  - id: svc/words-soon
    modality: embedding
    status: coming_soon
    context_length: 512
    pricing: { input_per_1m_tokens_cents: 1 }
  - id: svc/picture-gone
    modality: image
    status: deprecated
    pricing: { per_image_cents: 1 }
    targets: [{ provider: sandbox }]
  - id: svc/words-by-night
    modality: embedding
    context_length: 512
    pricing:
      peak: { input_per_1m_tokens_cents: 30000 }
      off_peak: { input_per_1m_tokens_cents: 10000 }
      peak_windows_utc: [{ start: "00:00", end: "12:00" }]
    targets: [{ provider: sandbox }]
plans:
  - key: large
    name: Large
    input_tokens_monthly: 1000000
    output_tokens_monthly: 1000000
    weekly_tokens: 1000000
    max_usage_cents: 100
`

/** A text of so many tokens, and of a length that fits them: what could not be is not believed. */
const textOf = (tokens: number) => `[[sandbox prompt_tokens=${tokens}]] ${'x'.repeat(tokens)}`

/** Of the embeddings of each round. */
const TOKENS = [4, 70, 140, 210, 280]

beforeAll(async () => {
  gateway = await openGateway({ settings: SETTINGS, clock })
  customer = await gateway.customer()
  subscriber = await gateway.customer({ cents: 0 })
  await subscribe(gateway.database, subscriber, 'large', clock.now())
  // Together, so that they are posted in batches of all kinds.
  for (const [round, tokens] of TOKENS.entries()) {
    const calls = [customer, subscriber].flatMap((key) => [
      gateway.post(key, '/embeddings', { model: 'svc/words', input: textOf(tokens) }),
      gateway.post(key, '/images/generations', { model: 'svc/picture', prompt: 'x', n: round + 1 }),
      gateway.post(key, '/chat/completions', { model: 'svc/talk', messages: [{ role: 'user', content: 'Hi' }] }),
    ])
    for (const response of await Promise.all(calls)) expect(response.status).toBe(200)
  }
})
afterAll(() => gateway?.close())

async function verify(): Promise<string[]> {
  const found: string[] = []
  for await (const each of verifyAll({ database: gateway.database, pause: async () => {}, checks: [planCheck] }))
    found.push(each.kind)
  return found
}

test('every charge is what its usage costs, and the books agree', async () => {
  expect(await verify()).toEqual([])
  expect(await findImbalances(gateway.database)).toEqual([])
})

test('rollups count images, and tokens of the prompt alone for embeddings', async () => {
  const rows = await gateway.database.query<{
    model: string
    requests: bigint
    images: bigint
    prompt: bigint
    completion: bigint
  }>(
    `select model, sum(requests)::bigint as requests, sum(image_count)::bigint as images,
       sum(prompt_tokens)::bigint as prompt, sum(completion_tokens)::bigint as completion
     from usage_hours where organization_id = $1::uuid group by 1 order by 1`,
    [customer.organizationId],
  )
  expect(rows.map(({ model, requests, images }) => [model, requests, images])).toEqual([
    ['svc/picture', 5n, 15n],
    ['svc/talk', 5n, 0n],
    ['svc/words', 5n, 0n],
  ])
  expect(rows[0]).toMatchObject({ prompt: 0n, completion: 0n })
  expect(rows[2]).toMatchObject({ prompt: 704n, completion: 0n })
})

test('embeddings are charged in whole cents, images by their pixels; GET /usage adds them up', async () => {
  const rows = await gateway.database.query<{ model: string; cost: bigint }>(
    `select model, cost_microcents as cost from named_charges where organization_id = $1::uuid and modality is not null
     order by model, prompt_tokens, image_count`,
    [customer.organizationId],
  )
  const costs = (model: string) => rows.filter((row) => row.model === model).map(({ cost }) => cost)
  // 4, 70, 140, 210 and 280 tokens at a cent a hundred.
  expect(costs('svc/words')).toEqual([1n, 1n, 2n, 3n, 3n].map((cents) => cents * 1_000_000n))
  const ofImages = [1n, 2n, 3n, 4n, 5n].map((count) => (count * 7_000n * 3_333_333n + 999_999n) / 1_000_000n)
  expect(costs('svc/picture')).toEqual(ofImages)
  const all = await gateway.database.query<{ cents: bigint }>(
    'select floor(sum(cost_microcents) / 1000000)::bigint as cents from charges where organization_id = $1::uuid',
    [customer.organizationId],
  )
  const usage = (await (await gateway.get(customer, '/usage')).json()) as { data: { cost_cents: number }[] }
  expect(usage.data.reduce((sum, { cost_cents: cents }) => sum + cents, 0)).toBe(Number(all[0]?.cents))
})

test('a covered call costs nothing and counts by its list price', async () => {
  const rows = await gateway.database.query<{ modality: string | null; cost: bigint; list: bigint; input: bigint }>(
    `select modality, sum(cost_microcents)::bigint as cost, sum(list_microcents)::bigint as list,
       sum(plan_input_tokens)::bigint as input
     from charges where organization_id = $1::uuid group by 1 order by 1`,
    [subscriber.organizationId],
  )
  expect(rows.map(({ modality, cost }) => [modality, cost])).toEqual([
    ['embedding', 0n],
    ['image', 0n],
    [null, 0n],
  ])
  expect(rows[0]).toMatchObject({ list: 10_000_000n, input: 704n })
  expect(rows[1]?.list).toBeGreaterThan(0n)
  expect(rows[1]?.input).toBe(0n)
})

const one = (what: string) => `where id = (select id from charges where ${what} order by id limit 1)`
test.each([
  [
    'an embedding that is not rounded up',
    'cost_microcents',
    '- 1',
    one("modality = 'embedding' and plan_period is null"),
    ['cost', 'rollup'],
  ],
  ['another count of images', 'image_count', '+ 1', one("modality = 'image' and plan_period is null"), ['rollup']],
  ['other pixels', 'image_pixels', '+ 1000', one("modality = 'image' and plan_period is null"), ['cost']],
  [
    'other pixels of a covered one',
    'image_pixels',
    '+ 1000',
    one("modality = 'image' and plan_period is not null"),
    ['cover'],
  ],
])('the verification finds %s', async (_name, column, change, where, kinds) => {
  const back = change.startsWith('+') ? change.replace('+', '-') : change.replace('-', '+')
  await gateway.database.query(`update charges set ${column} = ${column} ${change} ${where}`)
  expect(await verify()).toEqual(kinds)
  await gateway.database.query(`update charges set ${column} = ${column} ${back} ${where}`)
  expect(await verify()).toEqual([])
})

test('the list is filtered by modality, whatever a model’s status; calling one that is not active is 404', async () => {
  const list = async (modality: string) => {
    const response = await gateway.get(customer, `/models?modality=${modality}`)
    const { data } = (await response.json()) as { data: { id: string; status: string; category: string }[] }
    expect(data.every(({ category }) => category === modality)).toBe(true)
    return data.map(({ id, status }) => `${id} ${status}`)
  }
  expect(await list('embedding')).toEqual([
    'svc/words active',
    'svc/words-soon coming_soon',
    'svc/words-by-night active',
  ])
  expect(await list('image')).toEqual(['svc/picture active', 'svc/picture-gone deprecated'])
  expect(await list('video')).toEqual([])
  for (const [path, body, status] of [
    ['/embeddings', { model: 'svc/words-soon', input: 'x' }, 'coming_soon'],
    ['/images/generations', { model: 'svc/picture-gone', prompt: 'x' }, 'deprecated'],
  ] as const) {
    const response = await gateway.post(customer, path, body)
    const { error } = (await response.json()) as { error: { code: string; message: string } }
    expect([response.status, error.code]).toEqual([404, 'model_not_found'])
    expect(error.message).toContain(status)
  }
})

test('embeddings priced by the time of day cost what is in effect when they arrive', async () => {
  const shown = await gateway.get(customer, '/models/svc/words-by-night')
  const { pricing } = (await shown.json()) as { pricing: { period: string; input_per_1m_tokens_cents: number } }
  const input = textOf(200)
  const response = await gateway.post(customer, '/embeddings', { model: 'svc/words-by-night', input })
  const cents = Number(response.headers.get('Svc-Cost-Microcents')) / 1_000_000
  // Of 200 tokens at a cent, or three, a hundred.
  expect([pricing.period, pricing.input_per_1m_tokens_cents, cents]).toEqual(['off_peak', 10_000, 2])
  expect(await verify()).toEqual([])
})
