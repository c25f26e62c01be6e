/** Routes of the test's own, of every kind of caller and body, through the real router and a real server. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { TurnedClock } from '../../test/clock.ts'
import { pipelineParts, TEST_KEY, TEST_SESSION } from '../../test/exchange.ts'
import { openAttempts, replaysWith } from '../../test/keptAnswers.ts'
import { type FreshDatabase, freshDatabase } from '../../test/postgres.ts'
import {
  type Access,
  apiKey,
  apiKeyOrSession,
  publicAccess,
  type SessionAccess,
  session,
  signed,
} from '../http/access.ts'
import { createRateLimiter } from '../http/limits/rateLimit.ts'
import type { Prepare } from '../http/onceForKey.ts'
import type { Handle } from '../http/pipeline.ts'
import type {
  ApiKeyPrincipal,
  KeyOrSession,
  PublicPrincipal,
  SessionPrincipal,
  SignedPrincipal,
  Verify,
} from '../http/principal.ts'
import type { Route } from '../http/route.ts'
import { type HttpServer, listen } from '../infra/httpServer.ts'
import { systemRandom } from '../infra/random.ts'
import { refusal } from '../lib/errors.ts'
import { ok, refused } from '../lib/result.ts'
import { createRouter } from './router.ts'

const SECRET = 'whsec_test'
const OWN_ORIGIN = 'https://gateway.test'
const LIMIT_BYTES = 1_024

const verify: Verify = (headers, bytes) => {
  const expected = createHmac('sha256', SECRET).update(bytes).digest('hex')
  return headers.get('X-Signature') === expected
    ? ok({ kind: 'signed', sender: 'payments' })
    : refused(refusal('invalid_request', 'The signature is wrong.'))
}

const whoReads: Handle<KeyOrSession> = ({ principal }) => Response.json({ kind: principal.kind, id: principal.id })
const member: Handle<SessionPrincipal> = ({ principal }) => Response.json({ user: principal.userId })

const changeMe: Prepare<SessionPrincipal> = (call) => ok(() => member(call))

const whichKey: Handle = ({ principal }) => Response.json(principal)

const showPage: Handle<PublicPrincipal> = ({ parameters, query, principal }) =>
  Response.json({ parameters, x: query.get('x'), address: principal.address })

const signIn: Handle<PublicPrincipal> = ({ body, principal }) => Response.json({ body, kind: principal.kind })

const pay: Handle<SignedPrincipal> = ({ principal, bytes, parameters }) =>
  Response.json({ sender: principal.sender, text: Buffer.from(bytes).toString(), parameters })

let made = 0
const make: Prepare<KeyOrSession> = ({ principal, body }) =>
  ok(() => {
    made += 1
    return Response.json({ made, id: principal.id, body }, { status: 201 })
  })

const routes: Route[] = [
  { method: 'GET', path: '/key', access: apiKey('billing:read'), handle: whichKey },
  { method: 'GET', path: '/me', access: session('member'), handle: member },
  { method: 'PUT', path: '/me', access: session('admin'), body: 'json', prepare: changeMe },
  { method: 'GET', path: '/either', access: apiKeyOrSession('billing:read', 'member'), handle: whoReads },
  { method: 'POST', path: '/either', access: apiKeyOrSession('billing:write', 'member'), body: 'json', prepare: make },
  { method: 'GET', path: '/pages/{name}/{part}', access: publicAccess, query: ['x'], handle: showPage },
  { method: 'POST', path: '/sign-in', access: publicAccess, body: 'form', handle: signIn },
  {
    method: 'POST',
    path: '/payments/{provider}',
    access: signed(verify),
    body: 'raw',
    bodyLimitBytes: LIMIT_BYTES,
    handle: pay,
  },
]

const clock = new TurnedClock()
let fresh: FreshDatabase
let server: HttpServer
let withoutSessions: HttpServer
beforeAll(async () => {
  fresh = await freshDatabase()
  const random = systemRandom()
  const parts = pipelineParts({
    clock,
    random,
    authenticate: (authorization) => {
      if (authorization === 'Bearer key') return ok(TEST_KEY)
      const code = authorization === null ? 'unauthenticated' : 'invalid_api_key'
      return refused(refusal(code, 'There is no such key.'))
    },
  })
  const attempts = openAttempts({
    database: fresh.database,
    clock: parts.clock,
    random,
    slot: () => 0,
    dataKey: random(32),
  })
  const kept = { attempts, replays: replaysWith(parts.clock) }
  const sessions = {
    cookie: 'sid',
    csrfToken: (token: string) => `of ${token}`,
    origin: OWN_ORIGIN,
    authenticate: (token: string) =>
      token === 'good' ? ok(TEST_SESSION) : refused(refusal('unauthenticated', 'The session has ended.')),
  }
  const open = (pipeline: typeof parts) =>
    listen({
      host: '127.0.0.1',
      port: 0,
      maxBodyBytes: parts.bodyLimitBytes,
      handle: createRouter({ pipeline, kept, routes, corsOrigins: [] }),
      onError: () => new Response(null, { status: 500 }),
    })
  server = open({ ...parts, sessions })
  withoutSessions = open({ ...parts, addressRateLimiter: createRateLimiter(parts.clock) })
})
afterAll(async () => {
  await server.kill()
  await withoutSessions.kill()
  await fresh.drop()
})

async function ask(path: string, init: RequestInit = {}, at = server) {
  const response = await fetch(`http://127.0.0.1:${at.port}${path}`, init)
  const json = (await response.json()) as Record<string, unknown>
  return { status: response.status, json, headers: response.headers, code: json['code'] }
}

const KEY = { Authorization: 'Bearer key' }
const COOKIE = { Cookie: 'sid=good' }
const FROM_OWN_PAGE = { ...COOKIE, Origin: OWN_ORIGIN, 'X-CSRF-Token': 'of good' }
const JSON_BODY = { method: 'POST', body: '{"a":1}' }

describe('sessions', () => {
  test('open what is for sessions, and nothing that is for keys', async () => {
    expect(await ask('/v1/me', { headers: COOKIE })).toMatchObject({ status: 200, json: { user: TEST_SESSION.userId } })
    expect(await ask('/v1/key', { headers: COOKIE })).toMatchObject({ status: 401, code: 'unauthenticated' })
    expect(await ask('/v1/me', { headers: KEY })).toMatchObject({ status: 401, code: 'unauthenticated' })
    expect(await ask('/v1/me', { headers: { Cookie: 'sid=old' } })).toMatchObject({ status: 401 })
    expect(await ask('/v1/key', { headers: KEY })).toMatchObject({ status: 200, json: { kind: 'apiKey' } })
  })

  test('read and change what a key may too', async () => {
    expect((await ask('/v1/either', { headers: COOKIE })).json).toEqual({ kind: 'session', id: TEST_SESSION.id })
    expect((await ask('/v1/either', { headers: KEY })).json).toEqual({ kind: 'apiKey', id: TEST_KEY.id })
    const answer = await ask('/v1/either', { ...JSON_BODY, headers: FROM_OWN_PAGE })
    expect(answer).toMatchObject({ status: 201, json: { id: TEST_SESSION.id, body: { a: 1 } } })
  })

  test.each([
    [COOKIE, 403, 'cross_site_request'],
    [{ ...COOKIE, Origin: 'https://evil.test' }, 403, 'cross_site_request'],
    [{ ...COOKIE, 'Sec-Fetch-Site': 'cross-site' }, 403, 'cross_site_request'],
    [{ ...COOKIE, 'Sec-Fetch-Site': 'same-origin' }, 403, 'cross_site_request'],
    [{ ...COOKIE, 'Sec-Fetch-Site': 'same-origin', 'X-CSRF-Token': 'of good' }, 201, undefined],
    [{ ...COOKIE, Origin: 'https://evil.test', 'X-CSRF-Token': 'of good' }, 403, 'cross_site_request'],
    [{ ...KEY, Origin: 'https://evil.test' }, 201, undefined],
  ])('change nothing from a page of another site: %p', async (headers, status, code) => {
    const before = made
    expect(await ask('/v1/either', { ...JSON_BODY, headers })).toMatchObject({ status })
    expect((await ask('/v1/either', { ...JSON_BODY, headers })).code).toBe(code)
    expect(made - before).toBe(status === 201 ? 2 : 0)
  })

  test('need the role', async () => {
    const put = { method: 'PUT', body: '{}', headers: FROM_OWN_PAGE }
    expect(await ask('/v1/me', put)).toMatchObject({ status: 403, code: 'insufficient_scope' })
  })

  test('and keys have each their own Idempotency-Keys', async () => {
    const once = { 'Idempotency-Key': 'same' }
    const answers = [FROM_OWN_PAGE, FROM_OWN_PAGE, KEY, KEY].map(
      (caller) => () => ask('/v1/either', { ...JSON_BODY, headers: { ...caller, ...once } }),
    )
    const replayed: [unknown, string | null][] = []
    for (const send of answers) {
      const { json, headers } = await send()
      replayed.push([json['id'], headers.get('Idempotency-Replayed')])
    }
    expect(replayed).toEqual([
      [TEST_SESSION.id, null],
      [TEST_SESSION.id, 'true'],
      [TEST_KEY.id, null],
      [TEST_KEY.id, 'true'],
    ])
  })

  test('do not exist where nobody signs in: the cookie means nothing', async () => {
    expect(await ask('/v1/either', { headers: COOKIE }, withoutSessions)).toMatchObject({ status: 401 })
    expect(await ask('/v1/me', { headers: COOKIE }, withoutSessions)).toMatchObject({ status: 401 })
    expect(await ask('/v1/either', { headers: { ...KEY, ...COOKIE } }, withoutSessions)).toMatchObject({
      status: 200,
      json: { kind: 'apiKey' },
    })
  })
})

describe('a route for everybody', () => {
  test('takes parameters and a query, and needs no key', async () => {
    const { status, json, headers } = await ask('/v1/pages/a%20b/c?x=1')
    expect([status, json]).toEqual([200, { parameters: ['a b', 'c'], x: '1', address: '127.0.0.1' }])
    expect(headers.get('RateLimit-Limit')).toBe('100')
    expect(await ask('/v1/pages/a/c?y=1')).toMatchObject({ status: 422 })
    expect(await ask('/v1/pages/a')).toMatchObject({ status: 404 })
  })

  test('takes a form', async () => {
    const body = new FormData()
    body.set('name', 'someone')
    const { json } = await ask('/v1/sign-in', { method: 'POST', body })
    expect(json).toEqual({ body: [{ name: 'name', value: 'someone' }], kind: 'public' })
  })

  test('is limited by address, while keys go on', async () => {
    let last = await ask('/v1/pages/a/b', {}, withoutSessions)
    for (let count = 0; count < 100 && last.status === 200; count += 1) {
      last = await ask('/v1/pages/a/b', {}, withoutSessions)
    }
    expect(last).toMatchObject({ status: 429, code: 'rate_limited' })
    expect(Number(last.headers.get('Retry-After'))).toBeGreaterThan(0)
    expect(await ask('/v1/key', { headers: KEY }, withoutSessions)).toMatchObject({ status: 200 })
    expect(await ask('/v1/health', {}, withoutSessions)).toMatchObject({ status: 200 })
    expect(await ask('/v1/openapi.json', {}, withoutSessions)).toMatchObject({ status: 429 })
    await clock.turn(10_000)
    expect(await ask('/v1/openapi.json', {}, withoutSessions)).toMatchObject({ status: 200 })
  })
})

describe('a signed request', () => {
  const sign = (body: string) => createHmac('sha256', SECRET).update(body).digest('hex')
  const send = (body: BodyInit, headers: HeadersInit) => ask('/v1/payments/acme', { method: 'POST', body, headers })

  test('is handled with its bytes as they came', async () => {
    const body = '{ "paid" :  true }\n'
    expect(await send(body, { 'X-Signature': sign(body) })).toMatchObject({
      status: 200,
      json: { sender: 'payments', text: body, parameters: ['acme'] },
    })
  })

  test.each([
    ['a wrong signature', 'x', { 'X-Signature': sign('y') }, 400, 'invalid_request'],
    ['none', 'x', {}, 400, 'invalid_request'],
    ['none, and a key', 'x', KEY, 400, 'invalid_request'],
    [
      'a long body',
      'x'.repeat(LIMIT_BYTES + 1),
      { 'X-Signature': sign('x'.repeat(LIMIT_BYTES + 1)) },
      413,
      'request_too_large',
    ],
    ['a compressed body', 'x', { 'X-Signature': sign('x'), 'Content-Encoding': 'gzip' }, 422, 'validation_failed'],
  ])('is refused with %s', async (_name, body, headers, status, code) => {
    expect(await send(body, headers)).toMatchObject({ status, code })
  })

  test('is refused with a long body that does not say how long it is', async () => {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let piece = 0; piece < 5; piece += 1) controller.enqueue(new Uint8Array(LIMIT_BYTES / 4))
        controller.close()
      },
    })
    expect(await send(body, {})).toMatchObject({ status: 413 })
  })
})

describe('the description', () => {
  test('tells of sessions only where there are some', async () => {
    const schemes = async (at: HttpServer) => {
      const { json } = await ask('/v1/openapi.json', {}, at)
      return Object.keys((json as { components: { securitySchemes: object } }).components.securitySchemes)
    }
    expect(await schemes(server)).toEqual(['apiKey', 'session'])
    expect(await schemes(withoutSessions)).toEqual(['apiKey'])
  })
})

/** Whether a route of the access takes a handler of these callers, as the types have it. */
type Fits<A extends Access, P extends ApiKeyPrincipal | KeyOrSession | SessionPrincipal> = {
  method: 'GET'
  path: string
  access: A
  handle: Handle<P>
} extends Route
  ? true
  : false

test('a handler that is written for keys does not fit a route that lets sessions in', () => {
  const keyAtSession: Fits<SessionAccess, ApiKeyPrincipal> = false
  const keyAtEither: Fits<ReturnType<typeof apiKeyOrSession>, ApiKeyPrincipal> = false
  const eitherAtKey: Fits<ReturnType<typeof apiKey>, KeyOrSession> = true
  const sessionAtSession: Fits<SessionAccess, SessionPrincipal> = true
  expect([keyAtSession, keyAtEither, eitherAtKey, sessionAtSession]).toEqual([false, false, true, true])
})
