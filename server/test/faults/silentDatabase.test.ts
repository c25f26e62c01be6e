/** A database whose connections fall silent (E14): each request is answered within a bound, whatever it waits for. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openClient } from '../../src/infra/postgres/client.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { SECOND_MS } from '../../src/lib/time.ts'
import { type AskedGateway, openAskedGateway, type Question } from '../acceptance/ask.ts'
import { chat, film, picture, SETTINGS, words } from '../acceptance/catalog.ts'
import type { Answer } from '../acceptance/description.ts'
import { expectRefusal } from '../acceptance/refusals.ts'
import type { TestKey } from '../customer.ts'
import { LongClock } from '../longClock.ts'
import { type SilentProxy, startSilentProxy, throughProxy } from '../silentProxy.ts'

/** The longest that the client of the database gives one statement, and a step of the clock. */
const LONGEST_MS = 40 * SECOND_MS
const STEP_MS = 5 * SECOND_MS
const ID = '01993f8e-5c7b-7e0b-8a35-c1f2d3e4a5b6'

const clock = new LongClock(Date.UTC(2031, 4, 4, 12))
let proxy: SilentProxy
let pool: Database
let gateway: AskedGateway
let customer: TestKey
beforeAll(async () => {
  gateway = await openAskedGateway({
    settings: SETTINGS.replace('open_requests_per_key: 2', ''),
    clock,
    async dressDatabase(_direct, url) {
      proxy = await startSilentProxy(url)
      pool = openClient(throughProxy(url, proxy), { maxConnections: 4, clock })
      return pool
    },
  })
  customer = await gateway.customer({ admin: true })
  // Its key is known from now on, and its share is granted.
  expect((await gateway.ask({ path: '/chat/completions', key: customer, body: chat() })).status).toBe(200)
})
afterAll(async () => {
  await gateway.close()
  await pool.close()
  proxy.stop()
})

const keyed = () => ({ headers: { 'Idempotency-Key': crypto.randomUUID() } })

/** Requests of every kind that need the database before anything else is done. */
function questions(): [envelope: 'A' | 'B', question: Question][] {
  const post = (path: string, body: unknown, more: Partial<Question> = {}): Question => ({ path, body, ...more })
  const hook = { url: 'https://example.com/', event_types: ['video.completed'] }
  const all: [envelope: 'A' | 'B', question: Question][] = [
    ['B', post('/chat/completions', chat(), keyed())],
    ['B', post('/chat/completions', chat({ stream: true }), keyed())],
    ['B', post('/embeddings', words(), keyed())],
    ['B', post('/images/generations', picture(), keyed())],
    ['B', post('/videos', film())],
    ['B', post('/videos', film(), keyed())],
    ['B', { path: '/videos' }],
    ['B', { path: `/videos/${ID}` }],
    ['B', { path: `/videos/${ID}/content` }],
    ['B', post(`/videos/${ID}/cancel`, {})],
    ['A', { path: '/billing/balance' }],
    ['A', { path: '/billing/subscription' }],
    ['A', { path: '/billing/spending-limit' }],
    ['A', { method: 'PUT', ...post('/billing/spending-limit', { monthly_limit_dollars: 5 }) }],
    ['A', { path: '/usage' }],
    ['A', { path: '/webhook-endpoints' }],
    ['A', post('/webhook-endpoints', hook, keyed())],
    ['A', { path: '/manage/v1/deliveries' }],
  ]
  return all.map(([envelope, question]) => [envelope, { key: customer, ...question }])
}

test('each request that needs the database gets its 503 in time, and the next one is served once it is back', async () => {
  proxy.fallSilent()
  const asked = questions()
  const answers: (Answer | null)[] = asked.map(() => null)
  for (const [index, [, question]] of asked.entries()) {
    void gateway.ask(question).then((answer) => {
      answers[index] = answer
    })
  }
  // A key that nobody knows here is looked up too.
  const stranger = gateway.ask({ path: '/models', key: `${customer.key.slice(0, -6)}aaaaaa` })
  expect((await gateway.ask({ path: '/health' })).status).toBe(200)
  for (let turnedMs = 0; turnedMs < LONGEST_MS; turnedMs += STEP_MS) {
    clock.turn(STEP_MS)
    // Closing sockets takes its time, which the clock does not give.
    for (let look = 0; look < 20 && answers.includes(null); look += 1) await gateway.database.query('select 1')
  }
  for (const [index, [envelope, { method, path }]] of asked.entries()) {
    const answer = answers[index]
    if (answer === null || answer === undefined) throw new Error(`${method ?? ''} ${path} was not answered`)

    const code = envelope === 'A' ? 'internal_error' : 'upstream_unavailable'
    expectRefusal(answer, envelope, { status: 503, code, retryAfter: 1 })
  }
  expect((await stranger).status).toBe(503)
  // The server hears of connections that were given up: their transactions would keep rows locked.
  proxy.recover('delivered')
  for (const [, question] of questions()) expect((await gateway.ask(question)).status).not.toBe(503)
})
