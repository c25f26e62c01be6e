/**
 * Calls that are under way on a key which is revoked or expires (K6): they end, in whatever process they run, and are charged
 * for what was generated. Nothing here waits for a clock: each test ends when its calls have.
 */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { findImbalances } from '../../src/billing/charges/store.ts'
import { revokeKey } from '../../src/identity/keys/revoke.ts'
import { systemClock } from '../../src/infra/clock.ts'
import type { TestKey } from '../customer.ts'
import { type SteppedCall, type SteppedProvider, startSteppedProvider } from '../faults/steppedProvider.ts'
import { type Gateway, openGateway } from '../gateway.ts'
import { until } from '../until.ts'

setDefaultTimeout(60_000)

const settings = (url: string) => `
providers:
  stepped: { dialect: openai, base_url: "${url}" }
  sandbox: { dialect: sandbox, video_seconds_per_second: 1000 }
models:
  - id: svc/stepped
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100000, output_per_1m_tokens_cents: 100000 }
    targets: [{ provider: stepped, model: stepped }]
  - id: svc/words
    modality: embedding
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 10000000 }
    targets: [{ provider: stepped, model: words }]
  - id: svc/clip
    modality: video
    pricing: { per_video_second_cents: 1 }
    parameters: [{ name: seconds, type: int, min: 1, max: 8, default: 1 }]
    targets: [{ provider: sandbox, model: sandbox }]
`

let provider: SteppedProvider
let gateway: Gateway
let other: Gateway

beforeAll(async () => {
  provider = await startSteppedProvider()
  gateway = await openGateway({ settings: settings(provider.url) })
  other = await openGateway({ settings: settings(provider.url), beside: gateway })
})
afterAll(async () => {
  provider.stop()
  await other.close()
  await gateway.close()
})

const revoke = ({ id }: TestKey) => revokeKey({ database: other.database, clock: systemClock }, id)

/** A chat call that has reached the provider. */
async function chat(key: TestKey, isStream: boolean, headers: Readonly<Record<string, string>> = {}) {
  const body = { model: 'svc/stepped', stream: isStream, messages: [{ role: 'user', content: 'Hello' }] }
  const responding = gateway.post(key, '/chat/completions', body, headers)
  return { responding, asked: await provider.next() }
}

/** Waits until the client of a stream has a text. Returns the rest, to be read. */
async function readUntil(responding: Promise<Response>, text: string) {
  const reader = ((await responding).body as ReadableStream<Uint8Array>).getReader()
  const decoder = new TextDecoder()
  let received = ''
  const read = async () => {
    const { done, value } = await reader.read()
    received += decoder.decode(value, { stream: true })
    return !done
  }
  while (!received.includes(text) && (await read()));
  return async () => {
    while (await read());
    return received
  }
}

async function charges({ organizationId }: TestKey) {
  const rows = await gateway.database.query<{ outcome: string; prompt: number; completion: number }>(
    `select outcome, prompt_tokens::integer as prompt, completion_tokens::integer as completion from named_charges
     where organization_id = $1::uuid`,
    [organizationId],
  )
  expect(await findImbalances(gateway.database)).toEqual([])
  return rows
}

async function codeOf(response: Response): Promise<[number, string]> {
  const { error } = (await response.json()) as { error: { code: string } }
  return [response.status, error.code]
}

function respond({ socket }: SteppedCall, body: object): void {
  const text = JSON.stringify(body)
  socket.write(`HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`)
}

describe('a key that is revoked', () => {
  test.each([{}, { 'Idempotency-Key': 'streamed' }])(
    'ends its streams with the error event invalid_api_key, charged for what was generated %p',
    async (headers) => {
      const key = await gateway.customer()
      const bystander = await gateway.customer()
      const ended = await chat(key, true, headers)
      const going = await chat(bystander, true)
      for (const { asked } of [ended, going]) asked.says('one two three')
      const rest = await readUntil(ended.responding, 'three')
      const restOfOther = await readUntil(going.responding, 'three')
      await revoke(key)
      const text = await rest()
      expect(text).toContain('"code":"invalid_api_key"')
      expect(text).toContain('svc-cost-microcents')
      expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
      await ended.asked.cancelled
      const [charge] = await charges(key)
      expect(charge).toMatchObject({ outcome: 'cancelled' })
      expect(charge?.completion).toBeGreaterThan(0)

      going.asked.ends({ prompt: 5, completion: 3 })
      expect(await restOfOther()).not.toContain('"error"')
    },
  )

  test.each([{}, { 'Idempotency-Key': 'whole' }])(
    'ends its JSON calls with 401, charged for what was generated %p',
    async (headers) => {
      const key = await gateway.customer()
      const { responding, asked } = await chat(key, false, headers)
      asked.says('one two three')
      await revoke(key)
      expect(await codeOf(await responding)).toEqual([401, 'invalid_api_key'])
      await asked.cancelled
      expect(await charges(key)).toMatchObject([{ outcome: 'cancelled' }])
    },
  )

  test('ends a stream that has brought nothing yet with 401, charged for its prompt', async () => {
    const key = await gateway.customer()
    const { responding, asked } = await chat(key, true)
    await revoke(key)
    expect(await codeOf(await responding)).toEqual([401, 'invalid_api_key'])
    await asked.cancelled
    expect(await charges(key)).toMatchObject([{ outcome: 'cancelled', completion: 0 }])
  })

  test('answers embeddings that a target works on with 401 at once; the work goes on to its end, and is charged', async () => {
    const key = await gateway.customer()
    const responding = gateway.post(key, '/embeddings', { model: 'svc/words', input: 'Hello' })
    const asked = await provider.next()
    await revoke(key)
    expect(await codeOf(await responding)).toEqual([401, 'invalid_api_key'])
    expect(await charges(key)).toEqual([])
    respond(asked, {
      data: [{ index: 0, embedding: [1, 2] }],
      usage: { prompt_tokens: 2, total_tokens: 2 },
    })
    while ((await charges(key)).length === 0);
    expect(await charges(key)).toMatchObject([{ outcome: 'completed' }])
  })

  test('leaves accepted videos alone', async () => {
    const key = await gateway.customer()
    const { status, json } = await gateway
      .post(key, '/videos', { model: 'svc/clip', prompt: 'a cat' })
      .then(async (answer) => ({ status: answer.status, json: (await answer.json()) as { id: string } }))
    expect(status).toBe(202)
    await revoke(key)
    const stateOf = async () => {
      const [row] = await gateway.database.query<{ status: string }>('select status from videos where id = $1::uuid', [
        json.id.replace(/^\D+_/, ''),
      ])
      return row?.status
    }
    while (!['completed', 'failed', 'cancelled'].includes((await stateOf()) ?? 'gone'));
    expect(await stateOf()).toBe('completed')
  })
})

describe('a key that is revoked while the body of a request is on its way', () => {
  test.each([
    ['POST', '/chat/completions', { model: 'svc/stepped', messages: [{ role: 'user', content: 'Hello' }] }],
    ['POST', '/videos', { model: 'svc/clip', prompt: 'a cat' }],
    ['POST', '/webhook-endpoints', { url: 'https://example.com/', event_types: ['video.completed'] }],
    ['PUT', '/billing/spending-limit', { monthly_limit_dollars: 5 }],
  ])('gets 401 for it: %s %s', async (method, path, body) => {
    const key = await gateway.customer({ admin: true })
    let finish = () => {}
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        finish = () => {
          controller.enqueue(new TextEncoder().encode(JSON.stringify(body)))
          controller.close()
        }
      },
    })
    expect((await gateway.get(key, '/models')).status).toBe(200)
    const startedMs = performance.now()
    const answering = gateway.send(path, { method, headers: { Authorization: `Bearer ${key.key}` }, body: stream })
    await revoke(key)
    await until(async () => (await gateway.get(key, '/models')).status === 401)
    await until(() => performance.now() - startedMs > 300)
    finish()
    const answer = await answering
    expect([answer.status, await answer.text()]).toEqual([401, expect.stringContaining('invalid_api_key')])
    expect(await charges(key)).toEqual([])
  })
})

test('a key that expires ends what runs on it', async () => {
  const key = await gateway.customer({ expiresAtMs: systemClock.now() + 1_500 })
  const { responding, asked } = await chat(key, true)
  asked.says('one two three')
  const rest = await readUntil(responding, 'three')
  expect(await rest()).toContain('"code":"invalid_api_key"')
  expect(await charges(key)).toMatchObject([{ outcome: 'cancelled' }])
})
