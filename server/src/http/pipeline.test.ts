import { describe, expect, test } from 'bun:test'
import { pipelineParts, TEST_KEY } from '../../test/exchange.ts'
import { refusal } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { refused } from '../lib/result.ts'
import { apiKey, publicAccess } from './access.ts'
import { createLifecycle } from './lifecycle.ts'
import { type SteppedRoute, stepsOf } from './middleware/steps.ts'
import { type Answer, type Handle, pipeline, type Requirements } from './pipeline.ts'
import { splitUrl } from './routeTable.ts'

/** Each idle timeout that was set, in seconds. */
let timeouts: number[] = []
const connection = { address: '192.0.2.1', setIdleTimeout: (seconds: number) => void timeouts.push(seconds) }

function open(
  handle: Handle,
  needs: Requirements & Partial<Pick<SteppedRoute, 'access'>> = {},
  more: Partial<Parameters<typeof pipelineParts>[0]> = {},
) {
  const logged: unknown[] = []
  const note = (fields: object) => void logged.push(fields)
  const log = { fatal: note, error: note, warn: note, info: note, debug: () => {} } as unknown as Log
  const lifecycle = createLifecycle()
  const dependencies = pipelineParts({
    log,
    lifecycle,
    bodyLimitBytes: 1_024,
    isDatabaseAway: (error) => error instanceof RangeError,
    ...more,
  })
  const steps = stepsOf(dependencies, { method: 'GET', access: apiKey('any'), ...needs })
  const serve = pipeline(dependencies, 'GET /x', needs, steps, handle)
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

test('a caller that is signed out while its request runs gets no headers of a limit', async () => {
  const fine = open(() => new Response('fine'))
  expect((await fine.ask('/v1/models')).headers.get('RateLimit-Limit')).not.toBeNull()
  const ended = await open(() => refusal('unauthenticated', 'Sign in.')).ask('/v1/models')
  expect([ended.status, ended.headers.get('RateLimit-Limit'), ended.headers.get('RateLimit-Remaining')]).toEqual([
    401,
    null,
    null,
  ])
})

describe('a body that was worked on', () => {
  const unpaid: unknown[] = []
  const bodyWork = { ...pipelineParts().bodyWork, noteUnpaid: (...noted: unknown[]) => void unpaid.push(noted) }
  const post = async (answer: Answer | Handle, needs: Requirements) => {
    unpaid.length = 0
    const { ask } = open(typeof answer === 'function' ? answer : () => answer, { body: 'json', ...needs }, { bodyWork })
    await ask('/v1/models', { method: 'POST', headers: { 'Content-Length': '7' }, body: '{"a":1}' })
    return unpaid
  }

  test('is unpaid work of its organization where it is refused, replayed or free', async () => {
    const noted = [[TEST_KEY.organizationId, 7]]
    const replayed = new Response('', { headers: { 'Idempotency-Replayed': 'true' } })
    expect(await post(refusal('context_length_exceeded', 'Shorten it.'), { isPaid: true })).toEqual(noted)
    expect(await post(replayed, { isPaid: true })).toEqual(noted)
    expect(await post(new Response(''), {})).toEqual(noted)
    const refusing: Handle = (call) => {
      call.noteUnpaid()
      return new Response('data: a refusal')
    }
    expect(await post(refusing, { isPaid: true })).toEqual(noted)
  })

  test('is none where its answer is paid for', async () => {
    expect(await post(new Response(''), { isPaid: true })).toEqual([])
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
    let leave: () => void = () => {}
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
      { body: 'json' },
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
      { body: 'json' },
    )
    await ask('/v1/x', post)
    expect([timeouts, lifecycle.openRequests]).toEqual([[0], 1])
    end()
    expect([timeouts, lifecycle.openRequests]).toEqual([[0, 60], 0])
  })

  test('of a client that has taken nothing more of its answer is the shortest there is', async () => {
    timeouts = []
    let leave: (client?: 'stalled') => void = () => {}
    const { ask } = open((call) => {
      leave = call.holdOpen()
      return new Response('an answer, say')
    })
    await ask('/v1/models')
    leave('stalled')
    expect(timeouts).toEqual([0, 1])
  })

  test('is off while a handler without a body works: what it waits for has a deadline of its own (E14)', async () => {
    timeouts = []
    const { ask } = open(async () => {
      expect(timeouts).toEqual([0])
      return new Response('short')
    })
    await ask('/v1/x')
    expect(timeouts).toEqual([0, 60])
  })

  test('is off before a body is read, which has 60 s as a whole (K4)', async () => {
    timeouts = []
    let isRead = false
    const body = new ReadableStream({
      pull(controller) {
        expect(timeouts).toEqual([0])
        isRead = true
        controller.enqueue(new TextEncoder().encode('{}'))
        controller.close()
      },
    })
    await open(() => new Response('whole'), { body: 'json' }).ask('/v1/x', { method: 'POST', body })
    expect(isRead).toBe(true)
  })

  test('is the server’s own again after the answer to somebody who is known by the address alone', async () => {
    timeouts = []
    await open(() => new Response('whole'), { body: 'json', access: publicAccess }).ask('/v1/x', post)
    await open(() => new Response('whole'), { access: publicAccess }).ask('/v1/x')
    expect(timeouts).toEqual([0, 10, 0, 10])
  })

  test('stays the server’s own for a stranger', async () => {
    timeouts = []
    const stranger = { authenticate: () => refused(refusal('unauthenticated', 'No key.')) }
    await open(() => new Response('never'), { body: 'json' }, stranger).ask('/v1/x', post)
    expect(timeouts).toEqual([])
  })
})
