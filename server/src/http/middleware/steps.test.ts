/** The order of refusals (E1), by kind of route: a request has every fault at once, and they are mended one after another. */

import { describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { exchangeOf, pipelineParts, TEST_KEY, TEST_SESSION } from '../../../test/exchange.ts'
import { refusal } from '../../lib/errors.ts'
import { ok, refused } from '../../lib/result.ts'
import { type Access, apiKey, apiKeyOrSession, publicAccess, session, signed } from '../access.ts'
import { createOpenRequests } from '../limits/openRequests.ts'
import type { RateVerdict } from '../limits/rateLimit.ts'
import type { PipelineDependencies, Steps } from '../pipeline.ts'
import { type SteppedRoute, stepsOf } from './steps.ts'

const LIMIT_BYTES = 64
const WHOLE_LIMIT_BYTES = 1_024

/** The faults that a request may have. */
type Fault =
  | 'host'
  | 'length'
  | 'caller'
  | 'rate'
  | 'origin'
  | 'permission'
  | 'place'
  | 'reading'
  | 'body'
  | 'signature'
  | 'query'

/** A step's refusal, by the fault that it is for. */
const CODES: Readonly<Record<Fault, string>> = {
  host: 'validation_failed: The request has two Host',
  length: 'request_too_large: The request body is lar',
  caller: 'unauthenticated: nobody',
  rate: 'rate_limit_exceeded: This',
  origin: 'cross_site_request: This request comes from a page of another site',
  permission: 'insufficient_scope: ',
  place: 'stream_limit_exceeded: This key has 0',
  reading: 'request_too_large: The request body is lar',
  body: 'validation_failed: The request body is not v',
  signature: 'invalid_request: forged',
  query: 'validation_failed: The query parameter',
}

function partsWith(faults: ReadonlySet<Fault>): PipelineDependencies {
  const admitted = !faults.has('rate')
  const standing = { remaining: 0, resetSeconds: 1, retryAfterSeconds: 1 }
  const verdict: RateVerdict = { admitted, limit: { perSecond: 1, burst: 1 }, standing }
  const limiter = { take: () => verdict }
  const scopes = { serverless: 'none', billing: 'none', webhooks: 'none', instances: 'none' } as const
  const nobody = refused(refusal('unauthenticated', 'nobody'))
  return pipelineParts({
    clock: new TurnedClock(),
    authenticate: () => {
      if (faults.has('caller')) return nobody
      return ok(faults.has('permission') ? { ...TEST_KEY, scopes } : TEST_KEY)
    },
    sessions: {
      cookie: 'sid',
      csrfToken: (token: string) => `of ${token}`,
      origin: 'https://gateway.test',
      authenticate: () => {
        if (faults.has('caller')) return nobody
        return ok(faults.has('permission') ? TEST_SESSION : { ...TEST_SESSION, role: 'admin' })
      },
    },
    rateLimiter: limiter,
    addressRateLimiter: limiter,
    openRequests: createOpenRequests(faults.has('place') ? 0 : 1),
    bodyLimitBytes: WHOLE_LIMIT_BYTES,
  })
}

function requestWith(faults: ReadonlySet<Fault>, method: string, by: 'key' | 'session') {
  const headers = new Headers({ Host: faults.has('host') ? 'a, b' : 'a' })
  if (by === 'session') headers.set('Cookie', 'sid=x')
  else headers.set('Authorization', 'Bearer x')
  if (!faults.has('origin')) headers.set('Origin', 'https://gateway.test')
  headers.set('X-CSRF-Token', 'of x')
  if (faults.has('length')) headers.set('Content-Length', `${LIMIT_BYTES + 1}`)
  const text = faults.has('reading') ? ' '.repeat(LIMIT_BYTES + 1) : faults.has('body') ? '{' : '{}'
  const body = method === 'GET' ? {} : { body: new Blob([text]).stream() }
  return exchangeOf(`/v1/things${faults.has('query') ? '?x=1' : ''}`, { method, headers, ...body })
}

async function ask({ all }: Steps, exchange: Parameters<Steps['all'][number]>[0]): Promise<string | null> {
  for (const step of all) {
    const answer = await step(exchange)
    if (answer !== null) return `${answer.code}: ${answer.message}`
  }
  // Told together with the faults of the fields, which are validated next.
  const { unsupported } = exchange
  return unsupported === undefined ? null : `${unsupported.code}: ${unsupported.message}`
}

const forged = (faults: ReadonlySet<Fault>) =>
  signed(() =>
    faults.has('signature')
      ? refused(refusal('invalid_request', 'forged'))
      : ok({ kind: 'signed', sender: 'payments' }),
  )

const rows: [name: string, access: (faults: ReadonlySet<Fault>) => Access, by: 'key' | 'session', order: Fault[]][] = [
  [
    'a key',
    () => apiKey('billing:write'),
    'key',
    ['host', 'length', 'caller', 'rate', 'permission', 'reading', 'body', 'query'],
  ],
  [
    'a session',
    () => session('admin'),
    'session',
    ['host', 'length', 'caller', 'rate', 'origin', 'permission', 'reading', 'body', 'query'],
  ],
  [
    'either, by key',
    () => apiKeyOrSession('billing:write', 'member'),
    'key',
    ['host', 'length', 'caller', 'rate', 'permission', 'reading', 'body', 'query'],
  ],
  [
    'either, by session',
    () => apiKeyOrSession('billing:write', 'admin'),
    'session',
    ['host', 'length', 'caller', 'rate', 'origin', 'permission', 'reading', 'body', 'query'],
  ],
  ['publicAccess', () => publicAccess, 'key', ['host', 'length', 'rate', 'reading', 'body', 'query']],
  ['a signature', forged, 'key', ['host', 'length', 'rate', 'reading', 'signature', 'query']],
]

describe('the order of refusals', () => {
  test.each(rows)('of a POST for %s', async (_name, access, by, order) => {
    for (let from = 0; from <= order.length; from += 1) {
      const faults = new Set(order.slice(from))
      const kind = access(faults)
      const body = kind.kind === 'signed' ? 'raw' : 'json'
      const steps = stepsOf(partsWith(faults), { method: 'POST', access: kind, body, bodyLimitBytes: LIMIT_BYTES })
      const exchange = requestWith(faults, 'POST', by)
      const fault = order[from]
      if (fault === undefined) expect(await ask(steps, exchange)).toBeNull()
      else expect(await ask(steps, exchange)).toStartWith(CODES[fault])
    }
  })

  test('of inference: the place among the open requests stands between the scope and the body (K4)', async () => {
    const order: Fault[] = ['host', 'length', 'caller', 'rate', 'permission', 'place', 'reading', 'body', 'query']
    for (let from = 0; from <= order.length; from += 1) {
      const faults = new Set(order.slice(from))
      const route: SteppedRoute = { method: 'POST', access: apiKey('serverless:write'), body: 'json', takesPlace: true }
      const steps = stepsOf(partsWith(faults), { ...route, bodyLimitBytes: LIMIT_BYTES })
      const exchange = requestWith(faults, 'POST', 'key')
      const fault = order[from]
      const answer = await ask(steps, exchange)
      if (fault === undefined) expect([answer, typeof exchange.leavePlace]).toEqual([null, 'function'])
      else expect(answer).toStartWith(CODES[fault])
    }
  })

  test.each([
    ['a key', apiKey('billing:read'), 'key', ['host', 'caller', 'rate', 'permission', 'query']],
    ['a session, whatever its origin', session('admin'), 'session', ['host', 'caller', 'rate', 'permission', 'query']],
    ['publicAccess', publicAccess, 'key', ['host', 'rate', 'query']],
  ] as const)('of a GET for %s', async (_name, access, by, order) => {
    for (let from = 0; from <= order.length; from += 1) {
      const faults = new Set<Fault>([...order.slice(from), 'origin'])
      const steps = stepsOf(partsWith(faults), { method: 'GET', access })
      const fault = order[from]
      const answer = await ask(steps, requestWith(faults, 'GET', by))
      if (fault === undefined) expect(answer).toBeNull()
      else expect(answer).toStartWith(CODES[fault])
    }
  })
})

describe('a signed route', () => {
  test('makes no hash of a body that is too long, and none of one that is not raw', async () => {
    let hashes = 0
    const access = signed(() => {
      hashes += 1
      return ok({ kind: 'signed', sender: 'payments' })
    })
    const route: SteppedRoute = { method: 'POST', access, body: 'raw', bodyLimitBytes: LIMIT_BYTES }
    const steps = stepsOf(pipelineParts(), route)
    const post = (bytes: number) =>
      exchangeOf('/v1/things', { method: 'POST', body: new Blob(['x'.repeat(bytes)]).stream() })
    expect(await ask(steps, post(LIMIT_BYTES + 1))).toStartWith('request_too_large')
    expect(hashes).toBe(0)
    const sent = post(LIMIT_BYTES)
    expect(await ask(steps, sent)).toBeNull()
    expect([hashes, sent.bytes.byteLength]).toEqual([1, LIMIT_BYTES])
    expect(() => stepsOf(pipelineParts(), { ...route, body: 'json' })).toThrow('raw')
  })

  test('has no larger body than other routes, whatever it says', async () => {
    const access = signed(() => ok({ kind: 'signed', sender: 'payments' }))
    const steps = stepsOf(pipelineParts({ bodyLimitBytes: 8 }), {
      method: 'POST',
      access,
      body: 'raw',
      bodyLimitBytes: 99,
    })
    expect(await ask(steps, exchangeOf('/v1/things', { method: 'POST', body: '123456789' }))).toStartWith(
      'request_too_large',
    )
  })
})

test('a parsed body is let go before the handler runs, and its fingerprint is kept', async () => {
  const steps = stepsOf(pipelineParts(), { method: 'POST', access: apiKey('any'), body: 'json' })
  const exchange = exchangeOf('/v1/things', { method: 'POST', body: '{"a":1}', headers: { 'Idempotency-Key': 'k' } })
  expect(await ask(steps, exchange)).toBeNull()
  expect([exchange.bytes.byteLength, exchange.fingerprint.byteLength]).toEqual([0, 32])
  expect(exchange.body).toEqual({ a: 1 })
})

test('a caller is asked for again without its rate, body or query', () => {
  const steps = stepsOf(pipelineParts(), { method: 'GET', access: apiKey('any') })
  expect(steps.again).toHaveLength(2)
  for (const step of steps.again) expect(steps.all).toContain(step)
})
