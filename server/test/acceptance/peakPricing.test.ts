/**
 * Prices by the time of day, through the whole gateway with a clock that is turned over the edges of peak windows. Costs
 * are reckoned here apart from the server's own code.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { priceTokens } from '../../src/billing/charges/pricing.ts'
import { findImbalances } from '../../src/billing/charges/store.ts'
import { priceFromJson, rateAt } from '../../src/catalog/price.ts'
import type { TestKey } from '../customer.ts'
import { type SteppedProvider, startSteppedProvider } from '../faults/steppedProvider.ts'
import { type Gateway, openGateway } from '../gateway.ts'
import { untilMetric } from '../metricsPage.ts'
import { SetClock } from '../setClock.ts'

interface Rate {
  readonly input: bigint
  readonly output: bigint
  readonly cached: bigint | null
}
/** Micro-cents per million tokens: odd, so that a rounding at the wrong place shows. */
const PEAK: Rate = { input: 345_678_901_234_567n, output: 456_789_012_345_678n, cached: 56_789_012_345_679n }
const OFF_PEAK: Rate = { input: 123_456_789_012_347n, output: 234_567_890_123_459n, cached: 12_345_678_901_237n }
const ECONOMY_PEAK: Rate = { input: 3_456_789_013n, output: 4_567_890_127n, cached: null }
const ECONOMY_OFF_PEAK: Rate = { input: 1_234_567_891n, output: 2_345_678_903n, cached: 234_567_893n }
const USAGE = { prompt: 12, completion: 5, cached: 7 }

function costOf(
  rate: Rate,
  { prompt, completion, cached = 0 }: { prompt: number; completion: number; cached?: number },
) {
  const sum =
    BigInt(prompt - cached) * rate.input +
    BigInt(cached) * (rate.cached ?? rate.input) +
    BigInt(completion) * rate.output
  return (sum + 999_999n) / 1_000_000n
}

function pricing(windows: string, peak: Rate, offPeak: Rate): string {
  const side = ({ input, output, cached }: Rate) =>
    `{ input_per_1m_tokens_microcents: ${input}, output_per_1m_tokens_microcents: ${output}${
      cached === null ? '' : `, cached_input_per_1m_tokens_microcents: ${cached}`
    } }`
  return `{ peak: ${side(peak)}, off_peak: ${side(offPeak)}, peak_windows_utc: [${windows}] }`
}

const settings = (providerUrl: string) => `
providers:
  stepped: { dialect: openai, base_url: "${providerUrl}" }
models:
  - id: svc/timed
    context_length: 8192
    max_output_tokens: 1000
    pricing: ${pricing('{ start: "08:00", end: "20:00" }', PEAK, OFF_PEAK)}
    targets: [{ provider: stepped, model: stepped }]
    economy:
      pricing: ${pricing('{ start: "23:00", end: "01:00" }', ECONOMY_PEAK, ECONOMY_OFF_PEAK)}
      targets: [{ provider: stepped, model: stepped }]
`

const at = (time: string) => Date.parse(`2030-01-15T${time}Z`)
const RICH = { cents: 1_000_000_000 }

let provider: SteppedProvider
let gateway: Gateway
const clock = new SetClock(at('00:30:00.000'))

beforeAll(async () => {
  provider = await startSteppedProvider()
  gateway = await openGateway({ settings: settings(provider.url), clock })
})

afterAll(async () => {
  provider.stop()
  await gateway.close()
})

function call(key: TestKey, more: object = {}): Promise<Response> {
  const messages = [{ role: 'user', content: 'hi' }]
  return gateway.post(key, '/chat/completions', { model: 'svc/timed', messages, max_tokens: 10, ...more })
}

/** One call from end to end, the clock standing still. */
async function answered(key: TestKey, more: object = {}, usage: typeof USAGE = USAGE): Promise<Response> {
  const response = call(key, more)
  const asked = await provider.next()
  asked.says('word ')
  asked.ends(usage)
  return await response
}

/** Costs to the micro-cent, in the order they were posted. */
async function costs({ organizationId }: TestKey): Promise<bigint[]> {
  const rows = await gateway.database.query<{ cost: bigint }>(
    'select cost_microcents as cost from charges where organization_id = $1 order by posted_at, id',
    [organizationId],
  )
  expect(await findImbalances(gateway.database)).toEqual([])
  return rows.map(({ cost }) => cost)
}

/** Resolves when a call waits for the money that another holds. */
const someoneWaits = () => untilMetric(gateway.app, 'calls_waiting_for_money', 1)

const EDGES: readonly (readonly [time: string, model: string, rate: Rate])[] = [
  ['00:00:00.000', 'svc/timed:economy', ECONOMY_PEAK],
  ['00:59:59.999', 'svc/timed:economy', ECONOMY_PEAK],
  ['01:00:00.000', 'svc/timed:economy', ECONOMY_OFF_PEAK],
  ['07:59:59.999', 'svc/timed', OFF_PEAK],
  ['08:00:00.000', 'svc/timed', PEAK],
  ['08:00:00.000', 'svc/timed:economy', ECONOMY_OFF_PEAK],
  ['19:59:59.999', 'svc/timed', PEAK],
  ['20:00:00.000', 'svc/timed', OFF_PEAK],
  ['22:59:59.999', 'svc/timed:economy', ECONOMY_OFF_PEAK],
  ['23:00:00.000', 'svc/timed:economy', ECONOMY_PEAK],
  ['23:59:59.999', 'svc/timed:economy', ECONOMY_PEAK],
]

test('on each side of every edge a call is charged at that side, cached input included', async () => {
  for (const [time, model, rate] of EDGES) {
    clock.set(at(time))
    const key = await gateway.customer(RICH)
    const response = await answered(key, { model })
    expect(response.status).toBe(200)
    expect(await costs(key)).toEqual([costOf(rate, USAGE)])
    const { usage } = (await response.json()) as { usage: object }
    // Told where a cached rate was applied, and only there (C4).
    const details = { prompt_tokens_details: { cached_tokens: USAGE.cached } }
    expect(usage).toEqual({
      prompt_tokens: USAGE.prompt,
      completion_tokens: USAGE.completion,
      total_tokens: USAGE.prompt + USAGE.completion,
      ...(rate.cached !== null && details),
    })
  }
})

test('cached tokens are told only where more than 0 of them were charged at a cached rate, whole and streamed (C4)', async () => {
  clock.set(at('07:59:59.999'))
  const key = await gateway.customer(RICH)
  const none = { ...USAGE, cached: 0 }
  const whole = (await (await answered(key, {}, none)).json()) as { usage: object }
  expect(whole.usage).toEqual({
    prompt_tokens: none.prompt,
    completion_tokens: none.completion,
    total_tokens: none.prompt + none.completion,
  })
  const streamed = await (await answered(key, { stream: true }, none)).text()
  expect(streamed).toContain('"usage":')
  expect(streamed).not.toContain('prompt_tokens_details')
  expect(await costs(key)).toEqual([costOf(OFF_PEAK, none), costOf(OFF_PEAK, none)])
})

test('a call that arrives before the edge and is answered after it is charged as of its arrival', async () => {
  clock.set(at('07:59:59.999'))
  const key = await gateway.customer(RICH)
  const response = call(key)
  const asked = await provider.next()
  clock.set(at('08:01:00.000'))
  asked.says('late ')
  asked.ends(USAGE)
  expect((await response).status).toBe(200)
  expect(await costs(key)).toEqual([costOf(OFF_PEAK, USAGE)])
})

test('streams that run over an edge are charged at one rate, that of their arrival, in both directions', async () => {
  for (const [arrival, edge, rate] of [
    ['07:59:59.999', '08:00:00.000', OFF_PEAK],
    ['19:59:59.999', '20:00:00.000', PEAK],
  ] as const) {
    clock.set(at(arrival))
    const key = await gateway.customer(RICH)
    const response = call(key, { stream: true })
    const asked = await provider.next()
    asked.says('before ')
    const text = (await response).text()
    clock.set(at(edge))
    asked.says('after ')
    asked.ends(USAGE)
    expect(await text).toContain(`"prompt_tokens_details":{"cached_tokens":${USAGE.cached}}`)
    expect(await costs(key)).toEqual([costOf(rate, USAGE)])
  }
})

test('a client that hangs up after the edge pays for what was generated at the rate of its arrival', async () => {
  clock.set(at('07:59:59.999'))
  const key = await gateway.customer(RICH)
  const response = await (async () => {
    const streamed = call(key, { stream: true })
    const asked = await provider.next()
    asked.says('one two ', { usage: { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 } })
    return await streamed
  })()
  const reader = response.body?.getReader()
  await reader?.read()
  clock.set(at('08:00:00.000'))
  await reader?.cancel()
  let charged: bigint[] = []
  while (charged.length === 0) charged = await costs(key)
  expect(charged).toEqual([costOf(OFF_PEAK, { prompt: 9, completion: 2 })])
})

test('a hold, too, is of the rate at arrival: what the cheap hours cover the dear ones refuse', async () => {
  // Off peak the most that the call can come to is 12,470 cents, at peak 32,914.
  const key = await gateway.customer({ cents: 20_000 })
  clock.set(at('08:00:00.000'))
  expect((await call(key)).status).toBe(402)
  clock.set(at('07:59:59.999'))
  expect((await answered(key)).status).toBe(200)
  expect(await costs(key)).toEqual([costOf(OFF_PEAK, USAGE)])
})

test('a call that waits for money over an edge keeps the rate of its arrival', async () => {
  clock.set(at('07:59:59.999'))
  const key = await gateway.customer({ cents: 20_000 })
  const first = call(key)
  const asked = await provider.next()
  const second = call(key)
  await someoneWaits()
  clock.set(at('08:00:00.000'))
  asked.says('word ')
  asked.ends({ prompt: 1, completion: 1 })
  const askedLater = await provider.next()
  askedLater.says('word ')
  askedLater.ends(USAGE)
  expect([(await first).status, (await second).status]).toEqual([200, 200])
  const charged = await costs(key)
  expect(charged.toSorted()).toEqual(
    [costOf(OFF_PEAK, { prompt: 1, completion: 1 }), costOf(OFF_PEAK, USAGE)].toSorted(),
  )
})

test('every charge is recomputed from its row and its price version alone', async () => {
  const rows = await gateway.database.query<{
    price: string
    admitted: string
    prompt: bigint
    cached: bigint
    completion: bigint
    cost: bigint
  }>(
    `select price::text as price, (extract(epoch from admitted_at) * 1000)::bigint::text as admitted,
            prompt_tokens as prompt, cached_prompt_tokens as cached, completion_tokens as completion,
            cost_microcents as cost
       from named_charges join price_versions on hash = price_hash`,
  )
  for (const row of rows) {
    const usage = {
      promptTokens: Number(row.prompt),
      cachedPromptTokens: Number(row.cached),
      completionTokens: Number(row.completion),
    }
    expect(priceTokens(rateAt(priceFromJson(row.price), Number(row.admitted)), usage)).toBe(row.cost)
  }
  expect(rows.length).toBeGreaterThan(EDGES.length)
})

test('the listing turns with the clock, and says what a call at this instant costs', async () => {
  clock.set(at('07:59:59.999'))
  const key = await gateway.customer()
  const look = async (path: string) => {
    const response = await gateway.get(key, path)
    return { tag: response.headers.get('ETag'), body: (await response.json()) as Record<string, never> }
  }
  const cents = (microcents: bigint) => Number((microcents + 500_000n) / 1_000_000n)
  const before = await look('/models')
  expect(before.body).toMatchObject({
    data: [{ pricing: { period: 'off_peak', input_per_1m_tokens_cents: cents(OFF_PEAK.input) } }],
  })
  clock.set(at('08:00:00.000'))
  const after = await look('/models')
  expect(after.body).toMatchObject({
    data: [
      {
        pricing: {
          period: 'peak',
          input_per_1m_tokens_cents: cents(PEAK.input),
          cached_input_per_1m_tokens_microcents: Number(PEAK.cached),
          peak: { input_per_1m_tokens_microcents: Number(PEAK.input) },
          off_peak: { input_per_1m_tokens_microcents: Number(OFF_PEAK.input) },
          peak_windows_utc: [{ start: '08:00', end: '20:00' }],
        },
      },
    ],
  })
  expect(after.tag).not.toBe(before.tag)
  expect((await look('/models/svc/timed:economy')).body).toMatchObject({ pricing: { period: 'off_peak' } })
})
