/** Section 8 on routes of the test's own: envelope A, forms, a key that is required, answers that no charge goes with. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { type FreshDatabase, freshDatabase } from '../../test/postgres.ts'
import { SILENCE } from '../../test/silence.ts'
import { type Attempts, createAttempts } from '../idempotency/attempts.ts'
import { systemRandom } from '../io/random.ts'
import { refusal } from '../kernel/errors.ts'
import { ok, refused } from '../kernel/result.ts'
import type { AuthenticatedKey } from '../keys/authenticate.ts'
import { parseScopes } from '../keys/scopes.ts'
import { createLifecycle } from './lifecycle.ts'
import { createRateLimiter } from './limits/rateLimit.ts'
import { onceForKey, type Prepare } from './onceForKey.ts'
import { type PipelineDependencies, pipeline, type Requirements } from './pipeline.ts'
import { splitUrl } from './router.ts'
import { createTurns } from './turns.ts'

const scopes = parseScopes('full_access')
if (!scopes.ok) throw new Error('full_access is no scope')
const key: AuthenticatedKey = {
  id: '00000000-0000-4000-8000-00000000000b',
  organizationId: 'o',
  scopes: scopes.value,
  admin: false,
  expiresAtMs: null,
  newUntilMs: null,
}
const clock = new TurnedClock()
const lifecycle = createLifecycle()
const dependencies: PipelineDependencies = {
  clock,
  log: SILENCE,
  random: systemRandom(),
  lifecycle,
  authenticate: () => ok(key),
  rateLimiter: createRateLimiter(clock),
  rateLimit: { perSecond: 1_000, burst: 1_000 },
  newRateLimit: { perSecond: 1_000, burst: 1_000 },
  clientAddress: (address) => address,
  bodyLimitBytes: 65_536,
  turns: createTurns(),
  isDatabaseAway: () => false,
}

let fresh: FreshDatabase
let attempts: Attempts
beforeAll(async () => {
  fresh = await freshDatabase()
  attempts = createAttempts({
    database: fresh.database,
    clock,
    random: dependencies.random,
    log: SILENCE,
    slot: 0,
    isAbandoned: () => Promise.resolve(false),
    dataKey: dependencies.random(32),
    artifacts: {
      write: () => Promise.reject(new Error('no file is asked for')),
      size: () => Promise.resolve(null),
      read: () => Promise.resolve(null),
      remove: () => Promise.resolve(),
      async *list() {},
    },
  })
})
afterAll(() => fresh.drop())

/** A route; gives a way to ask it. */
function route(prepare: Prepare, needs: Omit<Requirements, 'permission'> = {}, path = '/v1/things') {
  const required: Requirements = { permission: 'any', ...needs }
  const serve = pipeline(dependencies, `POST ${path}`, required, onceForKey(attempts, required, prepare))
  return (idempotencyKey: string | null, init: RequestInit = {}, query = '') => {
    const url = `http://gateway.test${path}${query}`
    const headers = new Headers(init.headers)
    if (idempotencyKey !== null) headers.set('Idempotency-Key', idempotencyKey)
    return serve(
      new Request(url, { method: 'POST', ...init, headers }),
      { ...splitUrl(url), parameters: [] },
      { address: '192.0.2.1', setIdleTimeout: () => {} },
    )
  }
}

/** Answers each time with a number of its own. */
function counted(respond: (count: number) => Response = (count) => Response.json({ count }, { status: 201 })) {
  let count = 0
  const prepare: Prepare = () =>
    ok(() => {
      count += 1
      return respond(count)
    })
  return prepare
}

const codeOf = async (response: Response) => {
  const body = (await response.json()) as { code?: string; error?: { code: string } }
  return [response.status, body.code ?? body.error?.code]
}

describe('an answer without a charge', () => {
  test('is kept with status, Content-Type and Operation-Id', async () => {
    const headers = { 'Content-Type': 'application/x', 'Operation-Id': 'op-1', 'X-Other': 'y' }
    const ask = route(counted((count) => new Response(`${count}`, { status: 202, headers })))
    for (const replayed of [null, 'true', 'true']) {
      const response = await ask('kept')
      expect([response.status, await response.text()]).toEqual([202, '1'])
      expect(response.headers.get('Content-Type')).toBe('application/x')
      expect(response.headers.get('Operation-Id')).toBe('op-1')
      expect(response.headers.get('Idempotency-Replayed')).toBe(replayed)
    }
    expect(await (await ask(null)).text()).toBe('2')
  })

  test('without a body is kept too', async () => {
    const ask = route(counted(() => new Response(null, { status: 204 })))
    expect((await ask('empty')).status).toBe(204)
    const again = await ask('empty')
    expect([again.status, await again.text()]).toEqual([204, ''])
    expect(again.headers.get('Idempotency-Replayed')).toBe('true')
  })

  test.each<[string, () => Response]>([
    ['a status of failure', () => new Response('', { status: 500 })],
    ['a stream', () => new Response('data: x\n\n', { headers: { 'Content-Type': 'text/event-stream' } })],
  ])('%s is not kept', async (name, respond) => {
    let calls = 0
    const ask = route(
      counted(() => {
        calls += 1
        return respond()
      }),
    )
    for (let time = 0; time < 2; time += 1) {
      expect((await ask(name)).headers.get('Idempotency-Replayed')).toBeNull()
    }
    expect(calls).toBe(2)
  })

  test('a refusal and a bug free the key', async () => {
    let calls = 0
    const ask = route(() =>
      ok(() => {
        calls += 1
        if (calls === 1) return refusal('not_found', 'No.')
        if (calls === 2) throw new Error('a bug')
        return Response.json({ calls })
      }),
    )
    expect([(await ask('freed')).status, (await ask('freed')).status, (await ask('freed')).status]).toEqual([
      404, 500, 200,
    ])
  })

  test('held open beyond its handler, it is in progress until that ends', async () => {
    let close = () => {}
    const ask = route((call) =>
      ok(() => {
        close = call.holdOpen()
        return new Response('', { headers: { 'Content-Type': 'text/event-stream' } })
      }),
    )
    await ask('held')
    const refused = await ask('held')
    expect(refused.headers.get('Retry-After')).toBe('1')
    expect(await codeOf(refused)).toEqual([409, 'idempotency_conflict'])
    close()
    let again = await ask('held')
    while (again.status === 409) again = await ask('held')
    expect(again.status).toBe(200)
    close()
    expect(lifecycle.openRequests).toBe(0)
  })
})

describe('another request with the key', () => {
  test('another query, path or method is a mismatch, in envelope A', async () => {
    const ask = route(counted(), { query: ['a'] })
    expect((await ask('other', {}, '?a=1')).status).toBe(201)
    expect(await codeOf(await ask('other', {}, '?a=2'))).toEqual([422, 'idempotency_mismatch'])
    expect(await codeOf(await ask('other', { method: 'DELETE' }, '?a=1'))).toEqual([422, 'idempotency_mismatch'])
    expect(await codeOf(await route(counted(), {}, '/v1/other')('other'))).toEqual([422, 'idempotency_mismatch'])
  })
})

describe('a form', () => {
  const form = (boundary: string, ...fields: [string, string][]): RequestInit => ({
    headers: { 'Content-Type': `multipart/form-data; boundary=${boundary}` },
    body: `${fields
      .map(([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`)
      .join('')}--${boundary}--\r\n`,
  })
  const echo: Prepare = (call) => ok(() => Response.json(call.body))

  test('sent again with a new boundary is the same request, in another order it is not', async () => {
    const ask = route(echo, { body: 'form' })
    const first = await ask('form', form('one', ['prompt', 'a cat'], ['seconds', '4']))
    expect(await first.json()).toEqual([
      { name: 'prompt', value: 'a cat' },
      { name: 'seconds', value: '4' },
    ])
    const again = await ask('form', form('two', ['prompt', 'a cat'], ['seconds', '4']))
    expect(again.headers.get('Idempotency-Replayed')).toBe('true')
    const turned = await ask('form', form('two', ['seconds', '4'], ['prompt', 'a cat']))
    expect(await codeOf(turned)).toEqual([422, 'idempotency_mismatch'])
  })

  test('may be JSON instead; a file, and what is no form, are refused', async () => {
    const ask = route(echo, { body: 'form' }, '/v1/videos')
    expect(await (await ask(null, { body: '{"prompt":"x"}' })).json()).toEqual({ prompt: 'x' })
    const withFile = new FormData()
    withFile.set('input', new File(['x'], 'x.png'))
    expect(await codeOf(await ask(null, { body: withFile }))).toEqual([400, 'unsupported_parameter'])
    const broken = { headers: { 'Content-Type': 'multipart/form-data; boundary=b' }, body: 'nothing' }
    expect(await codeOf(await ask(null, broken))).toEqual([400, 'invalid_request'])
  })
})

describe('the header', () => {
  test('that a route requires is missing', async () => {
    const ask = route(counted(), { idempotencyKey: 'required' })
    const response = await ask(null)
    expect(await response.clone().text()).toContain('needs the header Idempotency-Key')
    expect(await codeOf(response)).toEqual([422, 'validation_failed'])
    expect((await ask('there')).status).toBe(201)
  })

  test.each([
    ['/v1/things', 422, 'validation_failed'],
    ['/v1/videos', 422, 'validation_failed'],
    ['/v1/embeddings', 400, 'invalid_request'],
  ])('that is too long is refused at %s with %d %s', async (path, status, code) => {
    const ask = route(counted(), {}, path)
    expect(await codeOf(await ask('k'.repeat(256)))).toEqual([status, code])
    expect(await codeOf(await ask(''))).toEqual([status, code])
  })

  test('comes after the fields', async () => {
    const ask = route(() => refused(refusal('unsupported_parameter', 'No.')), { idempotencyKey: 'required' })
    expect(await codeOf(await ask(null))).toEqual([400, 'unsupported_parameter'])
    expect(await codeOf(await ask(''))).toEqual([400, 'unsupported_parameter'])
  })
})
