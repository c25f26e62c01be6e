/**
 * A row for every row of the interface's section 8, limits and rules of idempotency, with the values that hold unless
 * settings say otherwise. Rows whose tests are elsewhere stand in one list at the end, by the names of those tests.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../../src/infra/clock.ts'
import type { TestKey } from '../customer.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { chat, directed, film, picture, SETTINGS, words } from './catalog.ts'
import type { Answer } from './description.ts'
import { type Expected, expectRefusal } from './refusals.ts'
import { HOOK, HOOKS } from './webhookRows.ts'

/** The catalog alone: all limits as they come, but for webhook tests. Of networks, one where nobody is told anything. */
const AS_IT_COMES = `webhooks: { allow: [127.0.0.0/8], tests_per_minute: 600 }\n${SETTINGS.slice(SETTINGS.indexOf('providers:'))}`
const MIB = 1024 * 1024

let gateway: AskedGateway
let customer: TestKey
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: AS_IT_COMES })
  customer = await gateway.customer({ admin: true })
})
afterAll(() => gateway.close())

const CHAT = '/chat/completions'
const EMBEDDINGS = '/embeddings'
const IMAGES = '/images/generations'
const VIDEOS = '/videos'
const DELIVERIES = '/manage/v1/deliveries'

function ask(path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
  return gateway.ask({ path, key: customer, headers, ...(body === undefined ? {} : { body }) })
}

describe('rates', () => {
  let limited: AskedGateway
  beforeAll(async () => {
    // Time stands still: no request comes back.
    const clock = { now: () => Date.UTC(2031, 0, 1), monotonicMs: () => 0, after: systemClock.after }
    const settings = `${AS_IT_COMES}\nrate_limit: { requests_per_second: 100, burst: 200 }\n`
    limited = await openAskedGateway({ settings, clock })
  })
  afterAll(() => limited.close())

  test.each([
    ['of a key', 'established', 200],
    ['of a new account', 'new', 30],
  ] as const)(
    '%s: a burst, then 429 with Retry-After, in each envelope with its own code',
    async (_, standing, burst) => {
      const key = await limited.customer({ standing })
      for (let sent = 0; sent < burst; sent += 1) expect((await limited.ask({ path: '/models', key })).status).toBe(200)
      for (const [path, body] of [
        ['/billing/balance', undefined],
        [HOOKS, HOOK],
        [DELIVERIES, undefined],
      ] as const) {
        const inA = await limited.ask({ path, key, body })
        expectRefusal(inA, 'A', { status: 429, code: 'rate_limited', retryAfter: 1 })
      }
      for (const [path, body] of [
        [CHAT, chat()],
        [EMBEDDINGS, words()],
        [IMAGES, picture()],
        [VIDEOS, film()],
        [VIDEOS, undefined],
      ] as const) {
        const inB = await limited.ask({ path, key, body })
        expectRefusal(inB, 'B', { status: 429, code: 'rate_limit_exceeded', retryAfter: 1 })
      }
    },
  )
})

test('new accounts: no more than 20 dollars an hour', async () => {
  const key = await gateway.customer({ standing: 'new', cents: 100_000 })
  // A token costs a cent.
  const dear = (tokens: number) =>
    directed(`prompt_tokens=1 tokens=${tokens}`, { model: 'svc/dear', max_tokens: tokens })
  const cut = await gateway.ask({ path: CHAT, key, body: dear(2_500) })
  expect(cut.json).toMatchObject({ choices: [{ finish_reason: 'length' }] })
  expect((cut.json as { usage: { completion_tokens: number } }).usage.completion_tokens).toBeWithin(1_600, 2_001)
  const refused = await gateway.ask({ path: CHAT, key, body: dear(1_000) })
  expectRefusal(refused, 'B', { status: 402, code: 'quota_exceeded', says: /new accounts/ })
})

test('open inference requests of a key: 100', async () => {
  const key = await gateway.customer({ cents: 1_000_000 })
  const leaves = new AbortController()
  const open = Array.from({ length: 100 }, async () => {
    const body = JSON.stringify(directed('silent_after=1', { stream: true }))
    const headers = { Authorization: `Bearer ${key.key}` }
    const response = await gateway.send(CHAT, { method: 'POST', headers, body, signal: leaves.signal })
    const reader = response.body?.getReader()
    await reader?.read()
    return reader
  })
  const readers = await Promise.all(open)
  const refused = await gateway.ask({ path: CHAT, key, body: chat() })
  expectRefusal(refused, 'B', { status: 429, code: 'stream_limit_exceeded', retryAfter: 1, says: /100 requests open/ })
  await Promise.all(readers.map((reader) => reader?.cancel()))
})

test('a body: 8 MiB', async () => {
  const tooLarge = await ask(CHAT, ' '.repeat(8 * MIB + 1))
  expectRefusal(tooLarge, 'B', { status: 413, code: 'request_too_large', says: String(8 * MIB) })
  expectRefusal(await ask(CHAT, ' '.repeat(8 * MIB)), 'B', { status: 400, code: 'invalid_request' })
})

describe('embeddings and images', () => {
  test('2048 inputs', async () => {
    expect((await ask(EMBEDDINGS, words({ input: new Array(2_048).fill('x'), dimensions: 2 }))).status).toBe(200)
    const refused = { status: 400, code: 'invalid_request', param: 'input', says: /2048/ }
    expectRefusal(await ask(EMBEDDINGS, words({ input: new Array(2_049).fill('x') })), 'B', refused)
  })

  test('an answer of 64 MiB', async () => {
    const large = await ask(EMBEDDINGS, words({ input: new Array(2_048).fill('x'), dimensions: 65_536 }))
    expectRefusal(large, 'B', { status: 502, code: 'upstream_response_too_large', says: /fewer inputs/ })
  })

  test('a cent at least, then whole cents', async () => {
    const key = await gateway.customer()
    const costs: (string | null)[] = []
    // A cent is 10,000 tokens.
    for (const tokens of [1, 10_000, 10_001]) {
      const body = words({ input: [`[[sandbox prompt_tokens=${tokens}]]`, ...new Array(30).fill('word '.repeat(100))] })
      costs.push((await gateway.ask({ path: EMBEDDINGS, key, body })).headers.get('Svc-Cost-Microcents'))
    }
    expect(costs).toEqual(['1000000', '1000000', '2000000'])
  })

  test('n: at least 1, 1 unless given, and 10 where the model does not say', async () => {
    expectRefusal(await ask(IMAGES, picture({ n: 0 })), 'B', { status: 422, code: 'validation_failed', param: 'n' })
    expectRefusal(await ask(IMAGES, picture({ n: 11 })), 'B', { status: 400, code: 'invalid_request', param: 'n' })
    expect((await ask(IMAGES, picture())).json).toMatchObject({ usage: { image_count: 1 } })
    expect((await ask(IMAGES, picture({ n: 10 }))).json).toMatchObject({ usage: { image_count: 10 } })
  })
})

test('seconds of a video: at least 1, and within the bounds of the model, whose default they are unless given', async () => {
  const ask = (more: Readonly<Record<string, unknown>>) =>
    gateway.ask({ path: VIDEOS, key: customer, body: film(more) })
  for (const seconds of [0, -1, 1.5, '0', '1.0', 'x', '', true, []]) {
    const refused = { status: 422, code: 'validation_failed', param: 'seconds', says: /at least 1/ }
    expectRefusal(await ask({ seconds }), 'B', refused)
  }
  for (const [model, least] of [
    ['svc/film', 1],
    ['svc/sized-film', 2],
  ] as const) {
    const { json } = await gateway.ask({ path: `/models/${model}`, key: customer })
    const { parameters } = json as { parameters: Record<string, unknown>[] }
    expect(parameters).toContainEqual({ name: 'seconds', type: 'int', min: least, max: 10, default: 4 })
    for (const seconds of [least - 1, 11, 1_000_000].filter((each) => each > 0)) {
      const says = `from ${least} to 10`
      expectRefusal(await ask({ model, seconds }), 'B', {
        status: 400,
        code: 'invalid_request',
        param: 'seconds',
        says,
      })
    }
    for (const seconds of [least, 10, `${least}`, '010']) {
      expect((await ask({ model, seconds })).json).toMatchObject({ status: 'queued', seconds: Number(seconds) })
    }
    for (const none of [{}, { seconds: null }]) {
      expect((await ask({ model, ...none })).json).toMatchObject({ status: 'queued', seconds: 4 })
    }
  }
})

describe.each(['/usage', HOOKS, DELIVERIES])('pages of %s', (path) => {
  test.each(['limit=0', 'limit=201', 'limit=1.5', 'limit=x', 'limit=', 'cursor=x', 'cursor=', 'cursor=WzEsMCwieCJd'])(
    '%s is refused',
    async (query) => {
      const says = `'${query.split('=')[0]}'`
      expectRefusal(await ask(`${path}?${query}`), 'A', { status: 422, code: 'validation_failed', says })
    },
  )

  test.each(['limit=1', 'limit=200', ''])('%s is fine, and the last page says so', async (query) => {
    const page = await ask(`${path}?${query}`)
    expect([page.status, page.json]).toMatchObject([200, { next_cursor: null }])
  })
})

test('pages of /videos: limit 1 to 200, and 50 unless given', async () => {
  const key = await gateway.customer({ cents: 100_000 })
  const page = async (query: string) => {
    const { json } = await gateway.ask({ path: `${VIDEOS}${query}`, key })
    return json as { data: { id: string }[]; first_id: string | null; last_id: string | null; has_more: boolean }
  }
  expect((await gateway.ask({ path: VIDEOS, key })).json).toEqual({
    object: 'list',
    data: [],
    first_id: null,
    last_id: null,
    has_more: false,
  })
  const made: string[] = []
  for (let count = 0; count < 51; count += 1) {
    const { json } = await gateway.ask({ path: VIDEOS, key, body: film() })
    made.push((json as { id: string }).id)
  }
  const first = await page('')
  const second = await page(`?after=${first.last_id}`)
  expect([first.data.length, first.has_more, second.data.length, second.has_more]).toEqual([50, true, 1, false])
  const ids = [...first.data, ...second.data].map(({ id }) => id)
  // Those of one millisecond have no order but that of their ids.
  expect(ids.toSorted()).toEqual(made.toSorted())
  expect(first).toMatchObject({ first_id: ids[0], last_id: ids[49] })
  expect(second).toMatchObject({ first_id: ids[50], last_id: ids[50] })
  expect(await page(`?after=${ids[50]}`)).toMatchObject({ data: [], first_id: null, last_id: null, has_more: false })
  expect((await page('?limit=200&order=asc')).data.map(({ id }) => id)).toEqual(ids.toReversed())
  expect(await page('?limit=1')).toMatchObject({ data: [{ id: ids[0] }], has_more: true })
  for (const limit of ['0', '201', '1.5', 'x', '']) {
    const refused = { status: 422, code: 'validation_failed', param: 'limit', says: /1 to 200/ }
    expectRefusal(await gateway.ask({ path: `${VIDEOS}?limit=${limit}`, key }), 'B', refused)
  }
})

test('pages of webhook endpoints and of deliveries: 50 unless given, each once', async () => {
  const key = await gateway.customer()
  const headers = () => ({ 'Idempotency-Key': crypto.randomUUID() })
  // Nobody listens there.
  const body = { ...HOOK, url: 'http://127.0.0.1:9/' }
  const { json } = await gateway.ask({ path: HOOKS, key, body, headers: headers() })
  const deliveries: string[] = []
  for (let count = 0; count < 51; count += 1) {
    const { id } = json as { id: string }
    const sent = await gateway.ask({ method: 'POST', path: `/manage/v1${HOOKS}/${id}/test`, key })
    deliveries.push((sent.json as { id: string }).id)
  }
  for (let count = 1; count < 50; count += 1) {
    const other = { ...body, url: `${body.url}${count}` }
    await gateway.ask({ path: HOOKS, key, body: other, headers: headers() })
  }
  const page = async (path: string) => {
    const answer = await gateway.ask({ path, key })
    const { data, next_cursor: next } = answer.json as { data: { id: string }[]; next_cursor: string | null }
    return { ids: data.map(({ id }) => id), next }
  }
  expect(await page(HOOKS)).toMatchObject({ next: null, ids: { length: 50 } })
  const first = await page(DELIVERIES)
  expect(first.ids).toHaveLength(50)
  const second = await page(`${DELIVERIES}?cursor=${first.next}`)
  // Those of one millisecond have no order but that of their ids.
  expect([[...first.ids, ...second.ids].sort(), second.next]).toEqual([deliveries.sort(), null])
  expect((await page(`${DELIVERIES}?limit=200`)).ids).toEqual([...first.ids, ...second.ids])
})

test('a monthly limit: a dollar at least', async () => {
  const put = (dollars: number) =>
    gateway.ask({
      method: 'PUT',
      path: '/billing/spending-limit',
      key: customer,
      body: { monthly_limit_dollars: dollars, enforcement: 'notify_only' },
    })
  const refused = { status: 422, code: 'validation_failed', says: /monthly_limit_dollars/ }
  expectRefusal(await put(0.99), 'A', refused)
  expect((await put(1)).status).toBe(200)
})

test('a request id: 128 characters, echoed as given, else 32 of hex', async () => {
  const echoed = async (id: string) =>
    (await ask('/models', undefined, { 'X-Request-Id': id })).headers.get('X-Request-Id')
  expect(await echoed('i'.repeat(128))).toBe('i'.repeat(128))
  expect(await echoed('i'.repeat(129))).toMatch(/^[0-9a-f]{32}$/)
})

describe.each([
  [CHAT, chat, 422, 'validation_failed'],
  [EMBEDDINGS, words, 400, 'invalid_request'],
  [IMAGES, picture, 422, 'validation_failed'],
] as const)('an Idempotency-Key: %s', (path, make, status, code) => {
  const send = (key: string, body: unknown, by = customer) =>
    gateway.ask({ path, key: by, body, headers: { 'Idempotency-Key': key } })

  test('255 characters', async () => {
    expect((await send(path.padEnd(255, 'k'), make())).status).toBe(200)
    const refused: Expected = { status, code, says: /255/ }
    for (const key of ['', 'k'.repeat(256)]) expectRefusal(await send(key, make()), 'B', refused)
  })

  test('of its own for each API key; replayed byte for byte; another body is refused (rules 2 to 4)', async () => {
    const first = await send(path, make())
    const again = await send(path, make())
    expect(again.text).toBe(first.text)
    expect([first, again].map(({ headers }) => headers.get('Idempotency-Replayed'))).toEqual([null, 'true'])
    const another = await send(path, make(), await gateway.customer())
    expect([another.status, another.headers.get('Idempotency-Replayed')]).toEqual([200, null])
    const mismatch = await send(path, make({ model: 'svc/x' }))
    expectRefusal(mismatch, 'B', { status: 422, code: 'idempotency_mismatch' })
  })
})

/** Rows with tests elsewhere, that need more than a gateway at rest: the file of each, and what it says there. */
const ELSEWHERE: [row: string, file: string, says: string][] = [
  [
    'the rate-limit store away: requests are allowed through',
    'acceptance/rateLimits.test.ts',
    'while it is away, all is let through and counted',
  ],
  ['the same, of several processes', 'faults/rateLimits.long.test.ts', 'four processes admit what one key may'],
  ['rates after a second', 'acceptance/rateLimits.test.ts', '200 at once, then 100 a second'],
  ['rates of new accounts rise', 'acceptance/rateLimits.test.ts', 'until it is 7 days old'],
  ['and after the first payment', 'acceptance/rateLimits.test.ts', 'until its first payment'],
  ['new accounts: 20 dollars an hour', '../src/billing/admission/processes.test.ts', 'spends $20 in any 60 minutes'],
  ['an Idempotency-Key after 24 hours', 'acceptance/idempotency.test.ts', 'is made and charged anew after 24 hours'],
  ['rules 1 to 5 at jobs and webhooks', 'acceptance/doneOnce.test.ts', 'is done once: 409 while it runs'],
  ['rule 5: the same key while the first request is running', 'acceptance/errorTables.test.ts', 'still running'],
  ['video retention: 24 hours', 'acceptance/limitTimes.test.ts', 'there for 24 hours, and not a moment longer'],
  ['a job never started: 2 hours', 'acceptance/limitTimes.test.ts', 'ends after 2 hours, unbilled'],
  ['webhook: 10 seconds', 'acceptance/limitTimes.test.ts', 'has 10 seconds for its answer'],
  ['webhook: 5 attempts', 'acceptance/limitTimes.test.ts', 'is sent 5 times, over 2.6 hours'],
  ['webhook: 5 minutes of tolerance', 'acceptance/limitTimes.test.ts', 'which receivers hold against 5 minutes'],
  ['deposits list: 50', '../src/payments/deposits/gateway.test.ts', 'the newest 50 are listed'],
  ['deposit minimum', '../src/payments/deposits/gateway.test.ts', "['below the minimum'"],
]
test.each(ELSEWHERE)('elsewhere: %s (%s)', async (_row, file, says) => {
  expect(await readFile(join(import.meta.dirname, '..', file), 'utf8')).toContain(says)
})
