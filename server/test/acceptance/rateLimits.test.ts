/** How often a key may call (K3), in one process and in two that share Redis, as a client meets it. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { grantCredit } from '../../src/billing/ledger/grantCredit.ts'
import { systemClock } from '../../src/infra/clock.ts'
import { systemRandom } from '../../src/infra/random.ts'
import { DAY_MS } from '../../src/lib/time.ts'
import { makeKey, type TestKey } from '../customer.ts'
import { type Gateway, openGateway } from '../gateway.ts'
import { metric, untilMetric } from '../metricsPage.ts'
import { startRedis } from '../redis.ts'
import { type AskedGateway, openAskedGateway, type Question } from './ask.ts'
import { chat, SETTINGS } from './catalog.ts'
import { expectRefusal } from './refusals.ts'

/** The limits that hold unless settings say otherwise, written out. */
const AS_IT_COMES = `
${SETTINGS}
rate_limit: { requests_per_second: 100, burst: 200 }
`
const START_MS = Date.UTC(2031, 0, 1)
let elapsedMs = 0
/** Stands still until it is turned; the deadlines of the database's connections are real. */
const clock = { now: () => START_MS + elapsedMs, monotonicMs: () => elapsedMs, after: systemClock.after }

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: AS_IT_COMES, clock })
})
afterAll(() => gateway.close())

const newCustomer = () => gateway.customer({ standing: 'new', cents: 0 })

const balance = { path: '/billing/balance' }
const ask = (key: TestKey, question: Question = balance) => gateway.ask({ ...question, key })

/** Returns the headers of the limit: the burst, the requests that are left, and the seconds until it is full. */
function told({ headers }: { readonly headers: Headers }) {
  return ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'].map((name) => headers.get(name))
}

async function useUp(key: TestKey, count: number): Promise<void> {
  for (let sent = 0; sent < count; sent += 1) expect((await ask(key)).status).toBe(200)
}

describe('an established organization', () => {
  test('200 at once, then 100 a second; each answer says what is left', async () => {
    const key = await gateway.customer()
    expect(told(await ask(key))).toEqual(['200', '199', '1'])
    await useUp(key, 198)
    expect(told(await ask(key))).toEqual(['200', '0', '2'])
    const refused = await ask(key)
    expectRefusal(refused, 'A', { status: 429, code: 'rate_limited', retryAfter: 1, says: /100 a second, and 200/ })
    expect(told(refused)).toEqual(['200', '0', '2'])
    elapsedMs += 10
    expect(told(await ask(key))).toEqual(['200', '0', '2'])
    expect((await ask(key)).status).toBe(429)
    elapsedMs += 1_000
    await useUp(key, 100)
    expect((await ask(key)).status).toBe(429)
    elapsedMs += 2_000
    await useUp(key, 200)
    expect((await ask(key)).status).toBe(429)
  })

  test('each key by itself', async () => {
    const key = await gateway.customer()
    const other = await makeKey(gateway.database, key.organizationId, {}, clock)
    await useUp(key, 200)
    expect((await ask(key)).status).toBe(429)
    expect(told(await ask(other))).toEqual(['200', '199', '1'])
  })
})

describe('the place of the refusal, and its words', () => {
  const path = '/chat/completions'
  let key: TestKey
  beforeAll(async () => {
    key = await gateway.customer({ scopes: 'read_only' })
    await useUp(key, 200)
  })
  const rows: [string, Question, number, string][] = [
    ['after 404 of the route', { path: '/nothing' }, 404, 'not_found'],
    ['after 405', { path, method: 'PUT' }, 405, 'method_not_allowed'],
    ['after 413 announced', { path, body: '', headers: { 'Content-Length': '70000' } }, 413, 'request_too_large'],
    ['before 403', { path, body: chat() }, 429, 'rate_limit_exceeded'],
    ['before 403 in envelope A', { path: '/webhook-endpoints', body: {} }, 429, 'rate_limited'],
    ['before 413 while reading', { path, body: ' '.repeat(70_000) }, 429, 'rate_limit_exceeded'],
    ['before a malformed body', { path, body: '{' }, 429, 'rate_limit_exceeded'],
    ['before an unknown query', { path: '/billing/balance?x=1' }, 429, 'rate_limited'],
    ['before 404 of a model', { path: '/models/svc/x' }, 429, 'rate_limit_exceeded'],
    ['on a stream, as a plain refusal', { path, body: chat({ stream: true }) }, 429, 'rate_limit_exceeded'],
    ['on what is not enabled', { path: '/embeddings', body: {} }, 429, 'rate_limit_exceeded'],
  ]
  test.each(rows)('%s', async (_, question, status, code) => {
    const answer = await ask(key, question)
    if (status !== 429) {
      expect(answer.status).toBe(status)
      expect(told(answer)).toEqual([null, null, null])
      return
    }
    const envelope = code === 'rate_limited' ? 'A' : 'B'
    expectRefusal(answer, envelope, { status, code, retryAfter: 1, says: /Retry-After/ })
    expect(told(answer)).toEqual(['200', '0', '2'])
  })

  test('after 401, which has no limit to tell of', async () => {
    const answer = await gateway.ask({ ...balance, key: `svc_live_${'x'.repeat(24)}` })
    expect([answer.status, ...told(answer)]).toEqual([401, null, null, null])
  })
})

test('every answer to a known key says so: whole, streamed, refused, without a body', async () => {
  const key = await gateway.customer()
  const path = '/chat/completions'
  const questions: [Question, number][] = [
    [{ path: '/models' }, 200],
    [{ path: '/models', method: 'HEAD' }, 200],
    [{ path, body: chat() }, 200],
    [{ path, body: chat({ stream: true }) }, 200],
    [{ path, body: chat({ stream: true, model: 'svc/x' }) }, 200],
    [{ path, body: '{' }, 400],
    [{ path, body: chat({ temperature: 9 }) }, 422],
    [{ path: '/embeddings', body: {} }, 400],
    [{ path: '/billing/balance?x=1' }, 422],
  ]
  for (const [index, [question, status]] of questions.entries()) {
    const answer = await ask(key, question)
    expect([answer.status, ...told(answer)]).toEqual([status, '200', `${199 - index}`, '1'])
  }
})

test('the description is counted by address, as public routes are, and health is not', async () => {
  const path = '/openapi.json'
  let last = await gateway.ask({ path })
  expect(last.status).toBe(200)
  for (let count = 0; count < 100 && last.status === 200; count += 1) last = await gateway.ask({ path })
  expectRefusal(last, 'A', { status: 429, code: 'rate_limited', retryAfter: 1, says: /10 a second, and 100/ })
  expect(told(last).slice(0, 2)).toEqual(['100', '0'])
  const health = await gateway.ask({ path: '/health' })
  expect([health.status, ...told(health)]).toEqual([200, null, null, null])
  expectRefusal(await gateway.ask({ path: '/health?x=1' }), 'A', { status: 422, code: 'validation_failed' })
})

describe('a new organization', () => {
  test('30 at once and 15 a second, until it is 7 days old', async () => {
    const key = await newCustomer()
    await useUp(key, 30)
    expectRefusal(await ask(key), 'A', {
      status: 429,
      code: 'rate_limited',
      retryAfter: 1,
      says: /15 a second, and 30/,
    })
    elapsedMs += 1_000
    await useUp(key, 15)
    expect(told(await ask(key))).toEqual(['30', '0', '2'])
    elapsedMs += 7 * DAY_MS
    expect(told(await ask(key))).toEqual(['200', '199', '1'])
  })

  test('until its first payment, of which every process hears; a gift is none', async () => {
    const key = await newCustomer()
    expect(told(await ask(key))).toEqual(['30', '29', '1'])
    const grant = (source: string, isPayment: boolean) =>
      gateway.database.transaction((tx) =>
        grantCredit(tx, systemRandom(), {
          organizationId: key.organizationId,
          amountMicrocents: 1_000_000n,
          source: `${source}:${key.id}`,
          note: null,
          isPayment,
          atMs: clock.now(),
        }),
      )
    await grant('gift', false)
    expect(told(await ask(key))).toEqual(['30', '28', '1'])
    await grant('payment', true)
    let limit: string | null = '30'
    // The notice comes on a connection of its own.
    while (limit === '30') {
      await turn()
      ;[limit = null] = told(await ask(key))
    }
    expect(limit).toBe('200')
  })
})

/**
 * Makes 60 calls with a new key at once, by turns to both gateways. On a machine so slow that Redis answers late some are let through
 * uncounted: then others are made.
 */
async function sixtyCalls(gateways: readonly [Gateway, Gateway]): Promise<{ key: TestKey; sent: Response[] }> {
  const skipped = async () => {
    return String(await Promise.all(gateways.map(({ app }) => metric(app, 'rate_limits_skipped_total'))))
  }
  for (;;) {
    for (const each of gateways) await untilMetric(each.app, 'limit_store_up', 1)
    const key = await gateways[0].customer()
    const before = await skipped()
    const sent = await Promise.all(
      Array.from({ length: 60 }, (_, index) => gateways[index % 2 === 0 ? 0 : 1].get(key, '/models')),
    )
    if ((await skipped()) === before) return { key, sent }
  }
}

describe('two processes that share Redis', () => {
  test('have one bucket and one count of open requests; while it is away, all is let through and counted', async () => {
    const redis = await startRedis()
    // No token comes back within the test.
    const settings = `${SETTINGS}\nrate_limit: { requests_per_second: 1, burst: 40 }\n`
    const first = await openGateway({ settings, redisUrl: redis.url })
    const second = await openGateway({ settings, redisUrl: redis.url, beside: first })
    try {
      const { key, sent } = await sixtyCalls([first, second])
      const admitted = sent.filter(({ status }) => status === 200).length
      // A token a second comes back, should the machine be slow.
      expect(admitted).toBeWithin(40, 44)
      expect(sent.filter(({ status }) => status === 429)).toHaveLength(60 - admitted)
      await redis.kill()
      const after = await Promise.all(Array.from({ length: 60 }, () => first.get(key, '/models')))
      expect(new Set(after.map(({ status }) => status))).toEqual(new Set([200]))
      expect(after.at(-1) && told(after.at(-1) as Response)).toEqual(['40', null, null])
      expect(await metric(first.app, 'rate_limits_skipped_total')).not.toBeNaN()
      expect(await metric(first.app, 'limit_store_up')).toBe(0)
    } finally {
      await second.close()
      await first.close()
      await redis.kill()
    }
  })
})

/** Lets everything outside this function have its turn. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
