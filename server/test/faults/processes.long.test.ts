/** Four gateway processes on one PostgreSQL, for real: money for exactly 50 calls, and a thousand that want it. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { findImbalances } from '../../src/billing/charges/store.ts'
import { makeCustomer, makeKey, type TestKey } from '../customer.ts'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import { startServer, type TestServer } from '../server.ts'

const PROCESSES = 4
const CALLS = 1_000
const KEYS = 12
const CENTS_A_CALL = 10
const AFFORDED = 50

/** A cent a token of the answer, and nothing for the prompt: a call of 10 tokens holds and costs exactly 10 cents. */
const SETTINGS = `
providers:
  sandbox: { dialect: sandbox, first_token_ms: 20, tokens_per_second: unlimited }
models:
  - id: svc/dime
    context_length: 4096
    max_output_tokens: 1024
    pricing: { input_per_1m_tokens_cents: 0, output_per_1m_tokens_cents: 1000000 }
    targets: [{ provider: sandbox, model: sandbox }]
`
const BODY = JSON.stringify({
  model: 'svc/dime',
  max_tokens: CENTS_A_CALL,
  messages: [{ role: 'user', content: `[[sandbox tokens=${CENTS_A_CALL}]]` }],
})

let fresh: FreshDatabase
const servers: TestServer[] = []
const agent = new Agent({ keepAlive: true, maxSockets: CALLS })

const start = () =>
  startServer({ settings: SETTINGS, environment: { DATABASE_URL: fresh.url, TOLLGATE_DATA_KEY: 'ab'.repeat(32) } })

beforeAll(async () => {
  fresh = await freshDatabase()
  // The first applies the migrations and makes the first key.
  for (let number = 0; number < PROCESSES; number += 1) servers.push(await start())
}, 120_000)

afterAll(async () => {
  agent.destroy()
  for (const server of servers) await server.remove()
  await fresh.drop()
}, 120_000)

async function customer(cents: number): Promise<{ organizationId: string; keys: TestKey[] }> {
  const first = await makeCustomer(fresh.database, { cents, admin: true })
  const keys = [first]
  while (keys.length < KEYS) keys.push(await makeKey(fresh.database, first.organizationId))
  return { organizationId: first.organizationId, keys }
}

/** The status; 0 when the process was gone or did not answer for `patienceMs`. */
async function call(server: TestServer, { key }: TestKey, patienceMs = 20_000): Promise<number> {
  const sent = request(`${server.url}/chat/completions`, {
    method: 'POST',
    agent,
    timeout: patienceMs,
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
  })
  sent.on('timeout', () => sent.destroy(new Error('no answer in time')))
  sent.end(BODY)
  try {
    const [response] = await once(sent, 'response')
    response.resume()
    await once(response, 'end')
    return response.statusCode
  } catch {
    return 0
  }
}

/** A thousand clients, each of which asks another process when it was refused, so often. */
async function storm(keys: readonly TestKey[], tries: number): Promise<number> {
  let served = 0
  const client = async (number: number) => {
    for (let tried = 0; tried < tries; tried += 1) {
      const server = servers[(number + tried) % servers.length]
      const key = keys[number % keys.length]
      if (server === undefined || key === undefined) return
      if ((await call(server, key)) !== 200) continue
      served += 1
      return
    }
  }
  await Promise.all(Array.from({ length: CALLS }, (_, number) => client(number)))
  return served
}

/** Charges that stand: a process that was stopped for longer than a charge's deadline refunds what it could not answer (E14). */
async function charged(organizationId: string): Promise<{ charges: number; cents: number }> {
  const rows = await fresh.database.query<{ charges: bigint; cents: bigint }>(
    `select count(*) as charges, coalesce(sum(cost_microcents) / 1000000, 0)::bigint as cents
     from charges c where organization_id = $1::uuid and not exists (
       select from ledger_entries where kind = 'refund' and source = 'refund:' || c.id)`,
    [organizationId],
  )
  return { charges: Number(rows[0]?.charges), cents: Number(rows[0]?.cents) }
}

/** A share is free a minute after its process's last sign of life; the rest is for a slow machine. */
const FREED_WITHIN_MS = 120_000
const ASK_EVERY_MS = 250
/** By every process, twice. */
const REFUSALS = 2 * PROCESSES

const EXACTLY = { charges: AFFORDED, cents: AFFORDED * CENTS_A_CALL }

test('a balance of $5 pays for exactly 50 of 1,000 concurrent calls of $0.10', async () => {
  const { organizationId, keys } = await customer(AFFORDED * CENTS_A_CALL)
  const served = await storm(keys, 2)
  console.log(`balance: ${served} of ${CALLS} calls served`)
  expect(served).toBe(AFFORDED)
  expect(await charged(organizationId)).toEqual(EXACTLY)
  expect(await findImbalances(fresh.database)).toEqual([])
}, 120_000)

test('a daily limit of $5 lets exactly 50 of 1,000 concurrent calls of $0.10 through', async () => {
  const { organizationId, keys } = await customer(100_000)
  const response = await fetch(`${servers[0]?.url}/billing/spending-limit`, {
    method: 'PUT',
    headers: { Authorization: `Bearer ${keys[0]?.key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ monthly_limit_dollars: 100, daily_limit_dollars: 5 }),
  })
  expect(response.status).toBe(200)
  const served = await storm(keys, 2)
  console.log(`daily limit: ${served} of ${CALLS} calls served`)
  expect(served).toBe(AFFORDED)
  expect(await charged(organizationId)).toEqual(EXACTLY)
  const limit = await fetch(`${servers[1]?.url}/billing/spending-limit`, {
    headers: { Authorization: `Bearer ${keys[0]?.key}` },
  })
  expect(await limit.json()).toMatchObject({
    current_day_spend_cents: 500,
    current_month_spend_cents: 500,
    percent_used: 5,
  })
}, 120_000)

test('one process killed and another stopped for 40 s: never more than 50, and in the end exactly 50', async () => {
  const { organizationId, keys } = await customer(AFFORDED * CENTS_A_CALL)
  const [first, , , fourth] = servers
  if (!first || !fourth) throw new Error('no servers')
  // Each takes a part of the money into its share before two of them fail.
  for (const server of servers) await call(server, keys[0] as TestKey)
  const storming = storm(keys, 2)
  await first.kill()
  fourth.process.kill('SIGSTOP')
  const stopped = new Promise((resolve) => setTimeout(resolve, 40_000))
  await storming
  expect((await charged(organizationId)).charges).toBeLessThanOrEqual(AFFORDED)
  console.log(`while one was dead and one stopped: ${(await charged(organizationId)).charges} calls charged`)
  await stopped
  fourth.process.kill('SIGCONT')
  servers[0] = await start()
  // The share of the dead process is free once the database has run for a minute; clients go on asking.
  const untilMs = performance.now() + FREED_WITHIN_MS
  let refusals = 0
  for (let tries = 0; performance.now() < untilMs; tries += 1) {
    const status = await call(servers[tries % PROCESSES] as TestServer, keys[tries % KEYS] as TestKey)
    refusals = status === 402 ? refusals + 1 : 0
    if (refusals >= REFUSALS && (await charged(organizationId)).charges >= AFFORDED) break
    await new Promise((resolve) => setTimeout(resolve, ASK_EVERY_MS))
  }
  expect(refusals).toBeGreaterThanOrEqual(REFUSALS)
  expect(await charged(organizationId)).toEqual(EXACTLY)
  expect(await findImbalances(fresh.database)).toEqual([])
}, 280_000)
