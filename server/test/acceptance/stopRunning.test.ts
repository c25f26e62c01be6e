/**
 * `stop_running` on calls under way (P5): when a cap is lowered, the balance is debited or this enforcement is set, running
 * chat keeps what its answer has used and one step, and asks for the rest again. Nothing else is shrunk.
 */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { tellChange } from '../../src/billing/admission/accounts/reclaim.ts'
import { findImbalances } from '../../src/billing/charges/store.ts'
import { adjustBalance } from '../../src/billing/ledger/adjust.ts'
import { systemRandom } from '../../src/infra/random.ts'
import { uuidV7 } from '../../src/lib/ids.ts'
import { drawText } from '../../src/providers/sandbox/picture.ts'
import type { TestKey } from '../customer.ts'
import { type SteppedCall, type SteppedProvider, startSteppedProvider } from '../faults/steppedProvider.ts'
import { type Gateway, openGateway } from '../gateway.ts'
import { metric } from '../metricsPage.ts'

/** Nothing here waits for a clock; a machine that is busy with other things may still be slow. */
setDefaultTimeout(60_000)

/** A token costs a tenth of a cent. */
const MICROCENTS_A_TOKEN = 100_000n
const CENT = 1_000_000n
/** The bound of the prompt "Hello": 5 bytes, and what a template may add. */
const PROMPT_TOKENS = 85
const STEP_TOKENS = 256
/** A token each, of the length that the gateway takes for one. */
const TOKENS_AN_EVENT = 10
const EVENT = ' the'.repeat(TOKENS_AN_EVENT)
const RICH_CENTS = 1_000_000

const settings = (url: string) => `
providers:
  stepped: { dialect: openai, base_url: "${url}" }
models:
  - id: svc/stepped
    context_length: 100000000
    pricing: { input_per_1m_tokens_cents: 100000, output_per_1m_tokens_cents: 100000 }
    targets: [{ provider: stepped, model: stepped }]
  - id: svc/words
    modality: embedding
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 10000000 }
    targets: [{ provider: stepped, model: words }]
  - id: svc/picture
    modality: image
    pricing: { per_image_cents: 300 }
    targets: [{ provider: stepped, model: picture }]
`

let provider: SteppedProvider
let gateway: Gateway
let other: Gateway
let picture: string

beforeAll(async () => {
  provider = await startSteppedProvider()
  gateway = await openGateway({ settings: settings(provider.url) })
  other = await openGateway({ settings: settings(provider.url), beside: gateway })
  picture = Buffer.from(await drawText(['x'], { width: 64, height: 64 }, 1)).toString('base64')
})

afterAll(async () => {
  provider.stop()
  await other.close()
  await gateway.close()
})

const atTokens = (tokens: number) => BigInt(tokens) * MICROCENTS_A_TOKEN

interface Limit {
  readonly dollars?: number
  readonly dailyDollars?: number
  readonly enforcement?: 'stop_running' | 'block_launch' | 'notify_only'
}

async function limit(key: TestKey, { dollars = 10_000, dailyDollars, enforcement = 'stop_running' }: Limit) {
  const daily = dailyDollars === undefined ? {} : { daily_limit_dollars: dailyDollars }
  const set = await gateway.send('/billing/spending-limit', {
    method: 'PUT',
    headers: { Authorization: `Bearer ${key.key}` },
    body: JSON.stringify({ monthly_limit_dollars: dollars, enforcement, ...daily }),
  })
  expect(set.status).toBe(200)
}

async function customer(first: Limit | null, cents = RICH_CENTS): Promise<TestKey> {
  const key = await gateway.customer({ admin: true, cents })
  if (first !== null) await limit(key, first)
  return key
}

function debit({ organizationId }: TestKey, cents: number): Promise<boolean> {
  const random = systemRandom()
  const atMs = Date.UTC(2031, 0, 1)
  const source = `adjustment:${uuidV7(atMs, random)}`
  const amountMicrocents = -BigInt(cents) * CENT
  return adjustBalance(gateway.database, random, { organizationId, amountMicrocents, source, note: 'test', atMs })
}

const PROMPT = [{ role: 'user', content: 'Hello' }]

/** A chat call under way: its provider's side and its client's. */
class Chat {
  readonly asked: SteppedCall
  private readonly responding: Promise<Response>
  private reader: ReadableStreamDefaultReader<Uint8Array> | null = null
  private readonly decoder = new TextDecoder()
  private received = ''

  constructor(asked: SteppedCall, responding: Promise<Response>) {
    this.asked = asked
    this.responding = responding
  }

  /** The provider says so many tokens, a few an event. */
  says(tokens: number): void {
    for (let said = 0; said < tokens; said += TOKENS_AN_EVENT) this.asked.says(EVENT)
  }

  /** The provider says so many tokens; resolves when the client has them. */
  async passes(tokens: number): Promise<void> {
    const wanted = this.tokensRead + tokens
    this.says(tokens)
    while (this.tokensRead < wanted && (await this.read()));
    expect(this.tokensRead).toBe(wanted)
  }

  /** The status, and the rest of what the client receives. */
  async rest(): Promise<{ status: number; text: string }> {
    const { status } = await this.responding
    while (await this.read());
    return { status, text: this.received }
  }

  private get tokensRead(): number {
    return this.received.split(' the').length - 1
  }

  private async read(): Promise<boolean> {
    this.reader ??= (await this.responding).body?.getReader() as ReadableStreamDefaultReader<Uint8Array>
    const { done, value } = await this.reader.read()
    this.received += this.decoder.decode(value, { stream: true })
    return !done
  }
}

async function chat(key: TestKey, more: object = {}, at = gateway): Promise<Chat> {
  const body = { model: 'svc/stepped', stream: true, messages: PROMPT, ...more }
  const responding = at.post(key, '/chat/completions', body)
  return new Chat(await provider.next(), responding)
}

/**
 * Resolves when a process has come into line with every change that was told so far: changes are heard in their order, and
 * one of an organization made for this has given back what the process had idle of it.
 */
async function heard(at: Gateway): Promise<void> {
  const key = await at.customer()
  const call = await chat(key, { max_tokens: 10 }, at)
  call.says(10)
  call.asked.ends({ prompt: 1, completion: 10 })
  await call.rest()
  expect(await granted(key)).toBeGreaterThan(0n)
  await tellChange(at.database, key.organizationId)
  while ((await granted(key)) > 0n);
}

async function granted({ organizationId }: TestKey): Promise<bigint> {
  const sql = 'select shares_microcents as granted from accounts where organization_id = $1::uuid'
  const rows = await gateway.database.query<{ granted: bigint }>(sql, [organizationId])
  return rows[0]?.granted ?? 0n
}

/** Returns the money that open calls of a process hold, of all organizations. */
async function held(at: Gateway): Promise<bigint> {
  return BigInt(await metric(at.app, 'held_microcents'))
}

async function charged({ organizationId }: TestKey) {
  const rows = await gateway.database.query<{ outcome: string; microcents: bigint }>(
    'select outcome, cost_microcents as microcents from charges where organization_id = $1::uuid order by admitted_at',
    [organizationId],
  )
  expect(await findImbalances(gateway.database)).toEqual([])
  return {
    outcomes: rows.map(({ outcome }) => outcome),
    microcents: rows.reduce((sum, row) => sum + row.microcents, 0n),
  }
}

/** A stream was cut: the error says by what, and it cost what it had used and at most one step. */
async function expectCut(stream: Chat, key: TestKey, used: number, code: string): Promise<void> {
  stream.says(20_000)
  const { text } = await stream.rest()
  expect(text).toContain(`"code":"${code}"`)
  const { outcomes, microcents } = await charged(key)
  expect(outcomes).toEqual(['cut'])
  expect(microcents).toBeGreaterThanOrEqual(atTokens(used))
  expect(microcents).toBeLessThanOrEqual(atTokens(PROMPT_TOKENS + used + STEP_TOKENS))
}

describe('a stream that holds all that was spendable', () => {
  test.each(['monthly', 'daily'] as const)(
    'is cut within one step where the lowered %s limit has no room',
    async (cap) => {
      const to = (dollars: number) => (cap === 'monthly' ? { dollars } : { dailyDollars: dollars })
      const key = await customer(to(10))
      const stream = await chat(key)
      await stream.passes(6_000)
      await limit(key, to(5))
      await heard(gateway)
      await expectCut(stream, key, 6_000, 'quota_exceeded')
    },
  )

  test('goes on to a lowered limit that has room for more, and not beyond it', async () => {
    const key = await customer({ dollars: 10 })
    const stream = await chat(key)
    await stream.passes(1_000)
    await limit(key, { dollars: 5 })
    await heard(gateway)
    stream.says(20_000)
    expect((await stream.rest()).text).toContain('"code":"quota_exceeded"')
    const { outcomes, microcents } = await charged(key)
    expect(outcomes).toEqual(['cut'])
    expect(microcents).toBeLessThanOrEqual(500n * CENT)
    expect(microcents).toBeGreaterThan(500n * CENT - atTokens(PROMPT_TOKENS + STEP_TOKENS))
  })

  test('goes on to its end where the lowered limit has room for that', async () => {
    const key = await customer({ dollars: 10 })
    const stream = await chat(key)
    await stream.passes(1_000)
    await limit(key, { dollars: 5 })
    await heard(gateway)
    expect(await held(gateway)).toBe(atTokens(PROMPT_TOKENS + 1_000 + STEP_TOKENS))
    await stream.passes(2_000)
    stream.asked.ends({ prompt: 8, completion: 3_000 })
    const { text } = await stream.rest()
    expect(text).not.toContain('"error"')
    expect(await charged(key)).toEqual({ outcomes: ['completed'], microcents: atTokens(3_008) })
  })

  test('is cut within one step after a debit of the balance', async () => {
    const key = await customer({ enforcement: 'stop_running' }, 1_000)
    const stream = await chat(key)
    await stream.passes(6_000)
    expect(await debit(key, 500)).toBe(true)
    await heard(gateway)
    await expectCut(stream, key, 6_000, 'insufficient_balance')
  })

  test('is cut within one step after stop_running was set, and not before', async () => {
    const key = await customer({ dollars: 10, enforcement: 'block_launch' })
    const stream = await chat(key, { max_tokens: 9_000 })
    await limit(key, { dollars: 5, enforcement: 'block_launch' })
    await heard(gateway)
    await stream.passes(6_000)
    await limit(key, { dollars: 5, enforcement: 'stop_running' })
    await heard(gateway)
    await expectCut(stream, key, 6_000, 'quota_exceeded')
  })

  test('is shrunk to its prompt and a step before its first token', async () => {
    const key = await customer({ dollars: 10 })
    const stream = await chat(key, { max_tokens: 9_000 })
    expect(await held(gateway)).toBe(atTokens(PROMPT_TOKENS + 9_000))
    await limit(key, { dollars: 5 })
    await heard(gateway)
    expect(await held(gateway)).toBe(atTokens(PROMPT_TOKENS + STEP_TOKENS))
    await stream.passes(3_000)
    stream.asked.ends({ prompt: 8, completion: 3_000 })
    expect((await stream.rest()).text).not.toContain('"error"')
    expect(await charged(key)).toEqual({ outcomes: ['completed'], microcents: atTokens(3_008) })
  })

  test('is shrunk where it has the whole of what it was limited to', async () => {
    const key = await customer({ dollars: 10 })
    const stream = await chat(key, { max_tokens: 9_000 })
    await stream.passes(6_000)
    expect(await held(gateway)).toBe(atTokens(PROMPT_TOKENS + 9_000))
    await limit(key, { dollars: 5 })
    await heard(gateway)
    expect(await held(gateway)).toBe(atTokens(PROMPT_TOKENS + 6_000 + STEP_TOKENS))
    await expectCut(stream, key, 6_000, 'quota_exceeded')
  })
})

test('a whole answer is shrunk like a stream, and ends with the length that was paid for', async () => {
  const key = await customer({ dollars: 10 })
  const call = await chat(key, { stream: false })
  call.says(1_000)
  await limit(key, { dollars: 5 })
  await heard(gateway)
  call.says(20_000)
  const { status, text } = await call.rest()
  expect([status, JSON.parse(text)]).toMatchObject([200, { choices: [{ finish_reason: 'length' }] }])
  const { outcomes, microcents } = await charged(key)
  expect(outcomes).toEqual(['cut'])
  expect(microcents).toBeLessThanOrEqual(500n * CENT)
})

test('streams of two processes are both shrunk, and share what the lowered limit leaves', async () => {
  const key = await customer({ dollars: 10 })
  const one = await chat(key, { max_tokens: 4_500 })
  const two = await chat(key, { max_tokens: 4_500 }, other)
  await one.passes(1_000)
  await two.passes(1_000)
  await limit(key, { dollars: 3 })
  for (const each of [gateway, other]) await heard(each)
  for (const each of [gateway, other]) {
    expect(await held(each)).toBe(atTokens(PROMPT_TOKENS + 1_000 + STEP_TOKENS))
  }
  one.says(4_000)
  expect((await one.rest()).text).toContain('"code":"quota_exceeded"')
  two.says(4_000)
  expect((await two.rest()).text).toContain('"code":"quota_exceeded"')
  const { outcomes, microcents } = await charged(key)
  expect(outcomes).toEqual(['cut', 'cut'])
  expect(microcents).toBeLessThanOrEqual(300n * CENT)
  expect(microcents).toBeGreaterThan(300n * CENT - 2n * atTokens(PROMPT_TOKENS + STEP_TOKENS))
})

function respond({ socket }: SteppedCall, body: object): void {
  const text = JSON.stringify(body)
  socket.write(`HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`)
}

test('calls in one piece keep their holds, and are charged whole', async () => {
  const key = await customer({ dollars: 100 })
  const words = gateway.post(key, '/embeddings', { model: 'svc/words', input: 'x'.repeat(20) })
  const wordsAsked = await provider.next()
  const pictures = gateway.post(key, '/images/generations', { model: 'svc/picture', prompt: 'x' })
  const picturesAsked = await provider.next()
  const before = await held(gateway)
  expect(before).toBeGreaterThanOrEqual(500n * CENT)
  await limit(key, { dollars: 1 })
  await debit(key, RICH_CENTS)
  await heard(gateway)
  expect(await held(gateway)).toBe(before)
  respond(wordsAsked, {
    data: [{ object: 'embedding', index: 0, embedding: [0.5] }],
    usage: { prompt_tokens: 20, total_tokens: 20 },
  })
  respond(picturesAsked, { data: [{ b64_json: picture }] })
  expect([(await words).status, (await pictures).status]).toEqual([200, 200])
  expect((await charged(key)).microcents).toBe(500n * CENT)
})

describe.each(['block_launch', 'notify_only'] as const)('under %s', (enforcement) => {
  test('nothing is shrunk when the cap is lowered or the balance debited, and the stream goes on to its end', async () => {
    const key = await customer({ dollars: 10, enforcement: 'stop_running' })
    const stream = await chat(key, { max_tokens: 9_000 })
    await stream.passes(1_000)
    const before = await held(gateway)
    expect(before).toBe(atTokens(PROMPT_TOKENS + 9_000))
    await limit(key, { dollars: 10, enforcement })
    await limit(key, { dollars: 1, enforcement })
    await debit(key, RICH_CENTS)
    await heard(gateway)
    expect(await held(gateway)).toBe(before)
    await stream.passes(8_000)
    stream.asked.ends({ prompt: 8, completion: 9_000 })
    expect((await stream.rest()).text).not.toContain('"error"')
    expect(await charged(key)).toEqual({ outcomes: ['completed'], microcents: atTokens(9_008) })
  })
})
