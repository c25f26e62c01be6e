import { describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { refusal } from '../kernel/errors.ts'
import type { Log } from '../kernel/log.ts'
import { ok } from '../kernel/result.ts'
import type { AuthenticatedKey } from '../keys/authenticate.ts'
import { parseScopes } from '../keys/scopes.ts'
import { createLifecycle } from './lifecycle.ts'
import { createRateLimiter } from './limits/rateLimit.ts'
import { type Handle, type PipelineDependencies, pipeline, type Requirements } from './pipeline.ts'
import { splitUrl } from './router.ts'
import { createTurns } from './turns.ts'

const scopes = parseScopes('full_access')
if (!scopes.ok) throw new Error('full_access is no scope')
const key: AuthenticatedKey = {
  id: 'k',
  organizationId: 'o',
  scopes: scopes.value,
  admin: false,
  expiresAtMs: null,
  newUntilMs: null,
}
/** Each idle timeout that was set, in seconds. */
let timeouts: number[] = []
const connection = { address: '192.0.2.1', setIdleTimeout: (seconds: number) => void timeouts.push(seconds) }

function open(handle: Handle, needs: Requirements = { permission: 'any' }) {
  const logged: unknown[] = []
  const note = (fields: object) => void logged.push(fields)
  const log = { fatal: note, error: note, warn: note, info: note, debug: () => {} } as unknown as Log
  const lifecycle = createLifecycle()
  const clock = new TurnedClock()
  const dependencies: PipelineDependencies = {
    clock,
    log,
    random: (length) => new Uint8Array(length).fill(7),
    lifecycle,
    authenticate: () => ok(key),
    rateLimiter: createRateLimiter(clock),
    rateLimit: { perSecond: 100, burst: 200 },
    newRateLimit: { perSecond: 15, burst: 30 },
    clientAddress: (address) => address,
    bodyLimitBytes: 1_024,
    turns: createTurns(),
    isDatabaseAway: (error) => error instanceof RangeError,
  }
  const serve = pipeline(dependencies, 'GET /x', needs, handle)
  const ask = (path: string, init: RequestInit = {}) =>
    serve(
      new Request(`http://gateway.test${path}`, init),
      { ...splitUrl(`http://gateway.test${path}`), parameters: [] },
      connection,
    )
  return { ask, lifecycle, logged }
}

const BUG = () => {
  throw new TypeError('canary: secret words of a bug')
}

describe('a handler that throws', () => {
  test.each([
    ['/v1/models', 'application/json', 'api_error'],
    ['/v1/usage', 'application/problem+json', 'urn:svc:error:internal_error'],
  ])('%s answers 500 in its envelope, without the words of the bug', async (path, contentType, type) => {
    const { ask, lifecycle, logged } = open(BUG)
    const response = await ask(path, { headers: { 'X-Request-Id': 'mine' } })
    const text = await response.text()
    expect(response.status).toBe(500)
    expect(response.headers.get('Content-Type')).toBe(contentType)
    expect(response.headers.get('X-Request-Id')).toBe('mine')
    expect(text).toContain(`"type":"${type}"`)
    expect(text).toContain('"code":"internal_error"')
    expect(text).not.toContain('canary')
    expect(logged).toEqual([{ err: expect.any(TypeError), route: 'GET /x', requestId: 'mine' }])
    expect(lifecycle.openRequests).toBe(0)
  })

  test.each([
    ['/v1/models', 'upstream_unavailable'],
    ['/v1/usage', 'internal_error'],
  ])('%s answers 503 %s while the database is away', async (path, code) => {
    const { ask } = open(() => {
      throw new RangeError('away')
    })
    const response = await ask(path)
    expect(response.status).toBe(503)
    expect(response.headers.get('Retry-After')).toBe('1')
    expect(await response.text()).toContain(`"code":"${code}"`)
  })
})

describe('a process that stops', () => {
  test('refuses new requests and asks for their connections back', async () => {
    const { ask, lifecycle } = open(() => new Response('fine'))
    lifecycle.close()
    const response = await ask('/v1/models')
    expect(response.status).toBe(503)
    expect(response.headers.get('Connection')).toBe('close')
    expect(await response.text()).toContain('"code":"upstream_unavailable"')
  })

  test('waits for what is open, streams included', async () => {
    let leave = () => {}
    const { ask, lifecycle } = open((call) => {
      leave = call.holdOpen()
      return new Response('a stream, say')
    })
    await ask('/v1/models')
    expect(lifecycle.openRequests).toBe(1)
    lifecycle.close()
    let drained = false
    const waiting = lifecycle.drained().then(() => {
      drained = true
    })
    await Promise.resolve()
    expect(drained).toBe(false)
    leave()
    leave()
    await waiting
    expect(lifecycle.openRequests).toBe(0)
  })
})

test('two Host headers are refused in either envelope', async () => {
  const { ask } = open(() => new Response('fine'))
  const headers = { Host: 'one.test, two.test' }
  expect(await (await ask('/v1/models', { headers })).text()).toContain('"code":"invalid_request"')
  expect(await (await ask('/v1/usage', { headers })).text()).toContain('"code":"validation_failed"')
})

test('a refusal that a handler returns is answered in the envelope of its path', async () => {
  const { ask } = open(() => refusal('rate_limit_exceeded', 'Slower.', { retryAfterSeconds: 3 }))
  const inB = await ask('/v1/models')
  expect(inB.headers.get('Retry-After')).toBe('3')
  expect(await inB.text()).toContain('"code":"rate_limit_exceeded"')
  expect(await (await ask('/v1/usage')).text()).toContain('"code":"rate_limited"')
})

describe('the idle timeout of a connection', () => {
  const post = { method: 'POST', body: '{}' }

  test('is off while a handler works, and on again for a client that does not read its answer', async () => {
    timeouts = []
    const { ask } = open(
      async () => {
        expect(timeouts).toEqual([0])
        return new Response('whole')
      },
      { permission: 'any', body: 'json' },
    )
    await ask('/v1/x', post)
    expect(timeouts).toEqual([0, 60])
  })

  test('is off until a stream has ended', async () => {
    timeouts = []
    let end = () => {}
    const { ask, lifecycle } = open(
      ({ holdOpen }) => {
        end = holdOpen()
        return new Response('begins')
      },
      { permission: 'any', body: 'json' },
    )
    await ask('/v1/x', post)
    expect([timeouts, lifecycle.openRequests]).toEqual([[0], 1])
    end()
    expect([timeouts, lifecycle.openRequests]).toEqual([[0, 60], 0])
  })

  test('stays the server’s own where no body is read', async () => {
    timeouts = []
    await open(() => new Response('short')).ask('/v1/x')
    expect(timeouts).toEqual([])
  })
})
