/**
 * Four gateway processes, money for some of the answers, and hundreds of streams whose length nobody knows before: what
 * is spent beyond the money stays within the bound that is stated, one step for each open stream.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { findImbalances } from '../../src/billing/charges/store.ts'
import { STEP_TOKENS } from '../../src/inference/chat/request.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { makeCustomer, makeKey, type TestKey } from '../customer.ts'
import { openDirectory } from '../dataDirectory.ts'
import { startRedis, type TestRedis } from '../redis.ts'
import { startServer, type TestServer } from '../server.ts'
import { seeded } from './seeded.ts'
import { startWordyProvider, type WordyProvider } from './wordyProvider.ts'

const PROCESSES = 4
/** The client here lets 256 calls through at once. */
const CLIENTS = 250
const KEYS = 12
const MONEY_CENTS = 500
/** A cent buys a thousand tokens: $5 are some 800 of the answers below. */
const MICROCENTS_A_TOKEN = 1_000n
const WORDS_MOST = 1_000
const ASK_AGAIN_MS = 200
const CENT = 1_000_000n

const random = seeded(20_260)
let provider: WordyProvider
let redis: TestRedis
let server: TestServer
let database: Database

beforeAll(async () => {
  provider = startWordyProvider(() => random.between(1, WORDS_MOST))
  redis = await startRedis()
  const settings = `
rate_limit: { requests_per_second: 10000, burst: 1000000 }
providers:
  wordy: { dialect: openai, base_url: "${provider.url}" }
models:
  - id: svc/wordy
    context_length: 4096
    max_output_tokens: 2048
    pricing: { input_per_1m_tokens_cents: 0, output_per_1m_tokens_cents: 1000 }
    targets: [{ provider: wordy, model: wordy }]
`
  server = await startServer({ settings, environment: { TOLLGATE_PROCESSES: String(PROCESSES), REDIS_URL: redis.url } })
  database = await openDirectory(server.dataDir)
}, 120_000)

afterAll(async () => {
  await database.close()
  await server.remove()
  await provider.stop()
  await redis.kill()
}, 120_000)

/** Resolves to whether the money allowed it, to its end or in part. */
async function stream({ key }: TestKey): Promise<boolean> {
  const response = await fetch(`${server.url}/chat/completions`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ model: 'svc/wordy', stream: true, messages: [{ role: 'user', content: 'Talk.' }] }),
  })
  const text = await response.text()
  if (response.status !== 200 && response.status !== 402) throw new Error(`status ${response.status}: ${text}`)
  return response.status === 200
}

/** Clients that ask again while anybody has an answer under way, which may give money back; how many answers they got. */
async function untilAllIsSpent(keys: readonly TestKey[]): Promise<number> {
  let answers = 0
  const client = async (number: number) => {
    const key = keys[number % keys.length]
    if (key === undefined) return
    for (;;) {
      const isServed = await stream(key)
      if (isServed) answers += 1
      else if (provider.open === 0) return
      else await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS))
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, (_, number) => client(number)))
  return answers
}

interface Spent {
  readonly answers: number
  readonly cut: number
  readonly microcents: bigint
}

async function spend(cents: number, prepare: (key: TestKey) => Promise<void> = async () => {}): Promise<Spent> {
  const first = await makeCustomer(database, { cents, admin: true })
  const keys = [first]
  while (keys.length < KEYS) keys.push(await makeKey(database, first.organizationId))
  await prepare(first)
  provider.forget()
  const answers = await untilAllIsSpent(keys)
  const [row] = await database.query<{ charges: bigint; cut: bigint; microcents: bigint }>(
    `select count(*) as charges, count(*) filter (where outcome = 'cut') as cut,
       coalesce(sum(cost_microcents), 0)::bigint as microcents
     from charges where organization_id = $1::uuid`,
    [first.organizationId],
  )
  expect(Number(row?.charges)).toBe(answers)
  expect(await findImbalances(database)).toEqual([])
  return { answers, cut: Number(row?.cut), microcents: row?.microcents ?? 0n }
}

/** Says what was overspent beside what may be, and holds the one against the other. */
function judge(name: string, { answers, cut, microcents }: Spent): void {
  const overspent = microcents - BigInt(MONEY_CENTS) * CENT
  const bound = BigInt(provider.mostOpen * STEP_TOKENS) * MICROCENTS_A_TOKEN
  const inCents = (amount: bigint) => (Number(amount) / 1e6).toFixed(3)
  console.log(
    `${name}: ${answers} answers, ${cut} of them cut, ${provider.mostOpen} open at once; overspent ` +
      `${inCents(overspent)} cents of ${MONEY_CENTS}, bound ${inCents(bound)} cents`,
  )
  expect(provider.mostOpen).toBeGreaterThan(PROCESSES)
  expect(overspent).toBeLessThanOrEqual(bound)
  // And little of it was left unspent: less than the first step of one more answer.
  expect(-overspent).toBeLessThan(BigInt(STEP_TOKENS) * MICROCENTS_A_TOKEN)
}

test('a balance of $5 is overspent by no more than a step for each open stream', async () => {
  judge('balance', await spend(MONEY_CENTS))
}, 180_000)

test('so is a daily limit of $5 that ends running streams', async () => {
  const limit = async ({ key }: TestKey) => {
    const response = await fetch(`${server.url}/billing/spending-limit`, {
      method: 'PUT',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ monthly_limit_dollars: 100, daily_limit_dollars: 5, enforcement: 'stop_running' }),
    })
    expect(response.status).toBe(200)
  }
  judge('daily limit', await spend(100_000, limit))
}, 180_000)
