/** Section 8 on routes of the test's own: envelope A, forms, a key that is required, answers that no charge goes with. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { pipelineParts, TEST_KEY, TEST_SESSION } from '../../test/exchange.ts'
import { openAttempts, replaysWith } from '../../test/keptAnswers.ts'
import { type FreshDatabase, freshDatabase } from '../../test/postgres.ts'
import { systemRandom } from '../infra/random.ts'
import { refusal } from '../lib/errors.ts'
import { ok, refused } from '../lib/result.ts'
import { apiKey } from './access.ts'
import type { Attempts } from './idempotency/attempts.ts'
import { createLifecycle } from './lifecycle.ts'
import { stepsOf } from './middleware/steps.ts'
import { onceForKey, type Prepare } from './onceForKey.ts'
import { pipeline, type Requirements } from './pipeline.ts'
import type { KeyOrSession } from './principal.ts'
import { splitUrl } from './routeTable.ts'

const clock = new TurnedClock()
const lifecycle = createLifecycle()
const dependencies = pipelineParts({ clock, lifecycle, random: systemRandom() })

const dataKey = dependencies.random(32)

let fresh: FreshDatabase
let attempts: Attempts
beforeAll(async () => {
  fresh = await freshDatabase()
  attempts = openAttempts({ database: fresh.database, clock, random: dependencies.random, slot: () => 0, dataKey })
})
afterAll(() => fresh.drop())

/** Makes a route; returns a function that calls it. */
function route(prepare: Prepare, needs: Requirements = {}, path = '/v1/things', kept = attempts) {
  const steps = stepsOf(dependencies, { method: 'POST', access: apiKey('any'), ...needs })
  const serve = pipeline(
    dependencies,
    `POST ${path}`,
    needs,
    steps,
    onceForKey({ attempts: kept, replays: replaysWith(clock) }, needs, prepare),
  )
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

describe('whose key it is (D7)', () => {
  const [one, other]: KeyOrSession[] = [
    { ...TEST_SESSION, id: '00000000-0000-4000-8000-0000000000a1' },
    { ...TEST_SESSION, id: '00000000-0000-4000-8000-0000000000a2' },
  ]
  test('each API key and each member has its own, also within one organization', async () => {
    const respond = counted()
    const askAs = (principal: KeyOrSession) => {
      const call = { principal, request: new Request('http://x/v1/things', { headers: { 'Idempotency-Key': 'mine' } }) }
      const fingerprint = new Uint8Array(32)
      const handle = onceForKey<KeyOrSession>({ attempts, replays: replaysWith(clock) }, {}, respond as never)
      return handle({
        ...call,
        fingerprint,
        holdOpen: () => () => {},
      } as never) as Promise<Response>
    }
    const counts: unknown[] = []
    for (const principal of [TEST_KEY, one, other, one, other, TEST_KEY] as KeyOrSession[]) {
      counts.push(((await (await askAs(principal)).json()) as { count: number }).count)
    }
    expect(counts).toEqual([1, 2, 3, 2, 3, 1])
  })
})

describe('the quota of kept answers', () => {
  test('used up: 429 before any work, which says how to go on; a route that requires a key goes on', async () => {
    const full = openAttempts({
      database: fresh.database,
      clock,
      random: dependencies.random,
      slot: () => 0,
      dataKey,
      quota: { bytes: 0, bytesPerDollar: 0 },
    })
    let works = 0
    const prepare: Prepare = () =>
      ok(() => {
        works += 1
        return Response.json({})
      })
    const ask = route(prepare, {}, '/v1/things', full)
    const refused = await ask('no room')
    expect(refused.headers.get('Retry-After')).toBe('60')
    expect(await refused.clone().text()).toContain('send it without the key, or later')
    expect(await codeOf(refused)).toEqual([429, 'rate_limited'])
    expect(await codeOf(await route(prepare, {}, '/v1/embeddings', full)('no room'))).toEqual([
      429,
      'rate_limit_exceeded',
    ])
    expect(works).toBe(0)
    expect((await ask(null)).status).toBe(200)
    expect((await route(prepare, { idempotencyKey: 'required' }, '/v1/things', full)('required')).status).toBe(200)
    expect(works).toBe(2)
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
