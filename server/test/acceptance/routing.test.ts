/** Calls that reach more than one target, or one more than once: charged once, for the answer that was delivered. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { TestKey } from '../gateway.ts'
import { metric, metricsPage } from '../metricsPage.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'

const MODEL = `
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }`
const SETTINGS = `
providers:
  never: { dialect: sandbox, first_token_ms: 600000 }
  quick: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited }
  nobody: { dialect: openai, base_url: "http://127.0.0.1:1/v1" }
models:
  - id: svc/hedged${MODEL}
    targets: [{ provider: never }, { provider: quick }]
    routing: { hedge_after_ms: 1 }
  - id: svc/retried${MODEL}
    targets: [{ provider: nobody, model: any }]
    routing: { retries: 1 }
  - id: svc/covered${MODEL}
    targets: [{ provider: quick, backup: true }, { provider: nobody, model: any }]
    economy:
      pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }
      targets: [{ provider: nobody, model: any }]
      routing: { cold_start_seconds: 0.3 }
`

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS })
})
afterAll(() => gateway.close())

const ask = (key: TestKey, model: string, stream: boolean) =>
  gateway.ask({
    path: '/chat/completions',
    key,
    body: { model, stream, max_tokens: 8, messages: [{ role: 'user', content: 'Hello.' }] },
  })

async function targetsCharged({ organizationId }: TestKey): Promise<string[]> {
  const rows = await gateway.database.query<{ target: string }>(
    'select target from named_charges where organization_id = $1::uuid',
    [organizationId],
  )
  return rows.map(({ target }) => target)
}

async function attempts(provider: string, outcome: string): Promise<number> {
  const name = `provider_attempt_duration_seconds_count{provider="${provider}",outcome="${outcome}"}`
  return (await metric(gateway.app, name)) || 0
}

test.each([[true], [false]])(
  'hedged: the quicker answer is delivered and charged, the other cancelled (stream: %p)',
  async (stream) => {
    const key = await gateway.customer()
    const before = await attempts('never', 'cancelled')
    expect((await ask(key, 'svc/hedged', stream)).status).toBe(200)
    expect(await targetsCharged(key)).toEqual(['quick/quick'])
    expect((await attempts('never', 'cancelled')) - before).toBe(1)
  },
)

test('retried in vain: asked twice, refused once, charged nothing', async () => {
  const key = await gateway.customer()
  const answer = await ask(key, 'svc/retried', false)
  expect([answer.status, answer.headers.get('Retry-After')]).toEqual([503, '1'])
  expect([await attempts('nobody', 'unavailable'), await targetsCharged(key)]).toEqual([2, []])
})

test('a backup is asked after the others, wherever it stands, and is charged as any target', async () => {
  const key = await gateway.customer()
  const before = await attempts('nobody', 'unavailable')
  expect((await ask(key, 'svc/covered', false)).status).toBe(200)
  expect(await targetsCharged(key)).toEqual(['quick/quick'])
  expect((await attempts('nobody', 'unavailable')) - before).toBe(1)
})

test('economy: waits for a server that is being started, then 503 with the time to come back', async () => {
  const key = await gateway.customer()
  const answer = await ask(key, 'svc/covered:economy', false)
  expect([answer.status, answer.headers.get('Retry-After')]).toEqual([503, '30'])
  expect(await targetsCharged(key)).toEqual([])
})

test('metrics show each target: whether it is well, and what it has open', async () => {
  const text = await metricsPage(gateway.app)
  expect(text).toContain('tollgate_target_up{provider="quick",model="quick"} 1')
  expect(text).toContain('tollgate_target_open_calls{provider="never",model="never"} 0')
  expect(text).toMatch(/tollgate_hedged_calls_total\{provider="quick"\} \d/)
})
