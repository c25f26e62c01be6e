/** Models that cost nothing, called by organizations that have passed a gate on money: preflight says that they are served (P2). */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { setLimit } from '../../src/billing/admission/accounts/limit.ts'
import { adjustBalance } from '../../src/billing/ledger/adjust.ts'
import { systemRandom } from '../../src/infra/random.ts'
import type { TestKey } from '../customer.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { chat, picture, SETTINGS, words } from './catalog.ts'
import { expectRefusal } from './refusals.ts'

const FREE = `
  - id: svc/free
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 0, output_per_1m_tokens_cents: 0 }
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/free-picture
    modality: image
    pricing: { per_image_cents: 0 }
    parameters: [{ name: size, type: enum, enum: ["64x64"], default: "64x64" }]
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/free-words
    modality: embedding
    context_length: 512
    pricing: { input_per_1m_tokens_cents: 0 }
    targets: [{ provider: sandbox, model: sandbox }]
plans:`

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS.replace('\nplans:', FREE) })
})
afterAll(() => gateway.close())

/** An organization that has passed a gate, and of which the gateway knows it: a call that costs something was refused. */
async function passed(pass: (key: TestKey, spentMicrocents: bigint) => Promise<unknown>): Promise<TestKey> {
  const key = await gateway.customer()
  const spent = await gateway.post(key, '/chat/completions', chat())
  await pass(key, BigInt(spent.headers.get('Svc-Cost-Microcents') ?? 0))
  // It is more than the gateway was granted before.
  const body = { ...chat(), model: 'svc/dear', max_tokens: 4_000 }
  expect((await gateway.post(key, '/chat/completions', body)).status).toBe(402)
  return key
}

const limitTo = (monthlyMicrocents: bigint, enforcement: 'block_launch' | 'stop_running', key: TestKey) =>
  setLimit(gateway.database, key.organizationId, {
    monthlyMicrocents,
    dailyMicrocents: undefined,
    enforcement,
    autoTerminateHours: undefined,
  })

async function debitBelowZero({ organizationId }: TestKey): Promise<void> {
  const source = `adjustment:${organizationId}`
  const debit = { organizationId, amountMicrocents: -10_000_000_000n, source, note: 'test', atMs: Date.UTC(2031, 0, 1) }
  expect(await adjustBalance(gateway.database, systemRandom(), debit)).toBe(true)
}

describe.each([
  ['a balance below zero', debitBelowZero],
  ['a limit below what is spent', (key: TestKey, spent: bigint) => limitTo(spent - 1n, 'block_launch', key)],
  ['a limit that is reached and stops what runs', (key: TestKey, spent: bigint) => limitTo(spent, 'stop_running', key)],
])('with %s', (_name, pass) => {
  test('chat, streams and images of models that cost nothing are served whole, as preflight says', async () => {
    const key = await passed(pass)
    for (const model of ['svc/free', 'svc/free-picture']) {
      const said = await gateway.ask({ path: `/inference/preflight?model=${model}`, key })
      expect(said.json).toMatchObject({ verdict: 'ok', funded: false })
    }
    const free = { key, path: '/chat/completions' }
    const whole = await gateway.ask({ ...free, body: chat({ model: 'svc/free' }) })
    expect([whole.status, whole.json]).toMatchObject([200, { choices: [{ finish_reason: 'stop' }] }])
    expect(whole.headers.get('Svc-Cost-Microcents')).toBe('0')
    const stream = await gateway.ask({ ...free, body: chat({ model: 'svc/free', stream: true }) })
    expect(stream.text).not.toContain('"error"')
    expect(stream.text).toContain('"finish_reason":"stop"')
    const drawn = await gateway.ask({ key, path: '/images/generations', body: picture({ model: 'svc/free-picture' }) })
    expect(drawn.status).toBe(200)
    const outcomes = await gateway.database.query(
      `select distinct outcome, cost_microcents as microcents from charges
       where organization_id = $1::uuid and cost_microcents = 0`,
      [key.organizationId],
    )
    expect(outcomes).toEqual([{ outcome: 'completed', microcents: 0n }])
  })
})

test('embeddings cost a cent at least: a model whose tokens cost nothing is refused as any other (B1)', async () => {
  const key = await passed(debitBelowZero)
  const said = await gateway.ask({ path: '/inference/preflight?model=svc/free-words', key })
  expect(said.json).toMatchObject({ verdict: 'block', reason: 'insufficient_balance' })
  const refused = await gateway.ask({ key, path: '/embeddings', body: words({ model: 'svc/free-words' }) })
  expectRefusal(refused, 'B', { status: 402, code: 'insufficient_balance' })
})
