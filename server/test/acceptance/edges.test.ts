/** Paths, methods, queries and headers: E2, E8, E9, E11, E12, M1 to M4. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway, type Question } from './ask.ts'
import { chat, film, SETTINGS } from './catalog.ts'
import { type Expected, errorObject, expectRefusal, problem } from './refusals.ts'
import { HOOK, HOOKS } from './webhookRows.ts'

let gateway: AskedGateway
let key: string

beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS })
  key = (await gateway.customer()).key
})
afterAll(() => gateway.close())

describe('an unknown path', () => {
  const unknown = { status: 404, code: 'not_found' }
  test.each([
    '/chat',
    '/chat/completions/',
    '/chat/completions/x',
    '/embeddings/x',
    '/images',
    '/videos/a/b',
    '/inference',
  ])('in B: %s', async (path) => expectRefusal(await gateway.ask({ path, key }), 'B', unknown))

  test.each([
    '/',
    '/nothing',
    '/MODELS',
    '/modelsx',
    '/billing',
    '/health/',
    '/openapixjson',
    '/usage/x',
    '//health',
    '/%6dodels/svc/demo',
    '/models%2Fsvc/demo',
    '/%68ealth',
    '/completions',
  ])('in A, with B beside it for clients that know nothing else: %s', async (path) => {
    const answer = await gateway.ask({ path, key })
    expect(answer.headers.get('Content-Type')).toBe('application/problem+json')
    expect(answer.json).toEqual({ ...problem(answer, unknown), ...errorObject(unknown) })
  })

  test.each([
    ['/responses', 'Responses API'],
    ['/responses/resp_1', 'Responses API'],
    ['/completions', 'bare prompt'],
    ['/messages', 'Messages API'],
    ['/messages/count_tokens', 'Messages API'],
  ])('of an interface that is not offered says what is, to any method and without a key: %s', async (path, name) => {
    for (const method of ['GET', 'POST']) {
      const answer = await gateway.ask({ method, path, ...(method === 'POST' ? { body: '{"model":"svc/demo"}' } : {}) })
      expect(answer.json).toEqual({ ...problem(answer, unknown), ...errorObject(unknown) })
      const { detail, error } = answer.json as { detail: string; error: { message: string } }
      expect(detail).toContain(name)
      expect(detail).toContain('POST /v1/chat/completions')
      expect(error.message).toBe(detail)
    }
  })

  test.each(['/constructor', '/completionsx', '/responses2'])('%s is none of them', async (path) => {
    const answer = await gateway.ask({ path })
    expect((answer.json as { detail: string }).detail).toContain('There is nothing at this path')
  })

  test('outside /v1 too', async () => {
    const connection = { address: '192.0.2.1', setIdleTimeout: () => {} }
    const response = await gateway.app.handle(new Request('http://gateway.test/chat/completions'), connection)
    expect(response.status).toBe(404)
    expect(await response.text()).toContain('/v1')
  })
})

describe('a wrong method', () => {
  test.each([
    ['/models', 'GET, HEAD', 'B'],
    ['/models/svc/demo', 'GET, HEAD', 'B'],
    ['/models/a%0Ab', 'GET, HEAD', 'B'],
    ['/chat/completions', 'POST', 'B'],
    ['/videos', 'POST, GET, HEAD', 'B'],
    ['/health', 'GET, HEAD', 'A'],
    ['/openapi.json', 'GET, HEAD', 'A'],
    ['/billing/balance', 'GET, HEAD', 'A'],
    ['/billing/spending-limit', 'GET, HEAD, PUT', 'A'],
    ['/webhook-endpoints', 'GET, HEAD, POST', 'A'],
    ['/webhook-endpoints/x', 'DELETE', 'A'],
    ['/videos/x', 'GET, HEAD', 'B'],
    ['/videos/x/content', 'GET, HEAD', 'B'],
    ['/videos/x/cancel', 'POST', 'B'],
    ['/manage/v1/deliveries', 'GET, HEAD', 'A'],
    ['/manage/v1/deliveries/x', 'GET, HEAD', 'A'],
    ['/manage/v1/deliveries/x/redeliver', 'POST', 'A'],
    ['/manage/v1/events', 'GET, HEAD', 'A'],
    ['/manage/v1/webhook-endpoints/x/test', 'POST', 'A'],
  ] as const)('%s takes %s', async (path, allow, envelope) => {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].filter((each) => !allow.includes(each))) {
      const refused = await gateway.ask({ method, path })
      expectRefusal(refused, envelope, { status: 405, code: 'method_not_allowed', allow, says: allow })
    }
  })
})

describe('HEAD', () => {
  const PATHS = ['/models', '/models/svc/demo', '/models/svc/none', '/billing/balance', '/health', '/openapi.json']
  const JOBS = ['/videos', '/videos/x', '/videos/x/content', '/inference/preflight?model=svc/film']
  const TOLD = ['/webhook-endpoints', '/manage/v1/deliveries']
  test.each([...PATHS, ...JOBS, ...TOLD])('goes with GET: %s', async (path) => {
    const got = await gateway.ask({ path, key })
    const head = await gateway.ask({ method: 'HEAD', path, key })
    expect(head.status).toBe(got.status)
    expect(head.text).toBe('')
    expect(head.headers.get('Content-Length')).toBe(String(Buffer.byteLength(got.text)))
    expect(head.headers.get('Content-Type')).toBe(got.headers.get('Content-Type'))
    expect(head.headers.get('ETag')).toBe(got.headers.get('ETag'))
    expect(head.headers.get('Date')).toMatch(/^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/)
  })

  test('is refused where GET is', async () => {
    const head = await gateway.ask({ method: 'HEAD', path: '/chat/completions' })
    expect([head.status, head.headers.get('Allow'), head.text]).toEqual([405, 'POST', ''])
  })
})

describe('the query', () => {
  const refused: [string, 'A' | 'B', Expected][] = [
    ['/models?x=1', 'B', { status: 400, code: 'unsupported_parameter', param: 'x' }],
    ['/models?modality=chat&x', 'B', { status: 400, code: 'unsupported_parameter', param: 'x' }],
    ['/models?modality=text', 'B', { status: 400, code: 'invalid_request', param: 'modality' }],
    ['/models?modality=', 'B', { status: 400, code: 'invalid_request', param: 'modality' }],
    ['/models?modality=chat&modality=chat', 'B', { status: 400, code: 'invalid_request', param: 'modality' }],
    ['/models/svc/demo?modality=chat', 'B', { status: 400, code: 'unsupported_parameter', param: 'modality' }],
    ['/models?%5B%5D=1', 'B', { status: 400, code: 'unsupported_parameter', param: '[]' }],
    [`/models?${'x'.repeat(9_000)}`, 'B', { status: 400, code: 'unsupported_parameter', param: 'x'.repeat(64) }],
    ['/billing/balance?organization=x', 'A', { status: 422, code: 'validation_failed', says: /'organization'/ }],
    ['/usage?organization=x', 'A', { status: 422, code: 'validation_failed', says: /'organization'/ }],
    [
      '/usage?limit=1&limit=2',
      'A',
      { status: 422, code: 'validation_failed', says: /'limit' is given more than once/ },
    ],
    ['/videos?x=1', 'B', { status: 400, code: 'unsupported_parameter', param: 'x' }],
    ['/videos/x?limit=1', 'B', { status: 400, code: 'unsupported_parameter', param: 'limit' }],
    ['/videos?limit=1&limit=1', 'B', { status: 422, code: 'validation_failed', param: 'limit' }],
    ['/videos/x/content?variant=video&variant=x', 'B', { status: 422, code: 'validation_failed', param: 'variant' }],
    ['/inference/preflight?model=a&model=b', 'B', { status: 400, code: 'invalid_request', param: 'model' }],
    [
      '/inference/preflight?model=svc/film&seconds=4',
      'B',
      { status: 400, code: 'unsupported_parameter', param: 'seconds' },
    ],
    [
      '/models?modality=chat&modality=chat&x=1&y=2&x=3',
      'B',
      { status: 400, code: 'unsupported_parameter', param: 'x', says: /'x' and 'y' are not known/ },
    ],
    ['/videos?limit=1&limit=1&y=1', 'B', { status: 400, code: 'unsupported_parameter', param: 'y' }],
    ['/usage?a=1&limit=x&b=2', 'A', { status: 422, code: 'validation_failed', says: /'a' and 'b' are not known/ }],
    ['/webhook-endpoints?after=x', 'A', { status: 422, code: 'validation_failed', says: /'after'/ }],
    ['/manage/v1/deliveries?organization=x', 'A', { status: 422, code: 'validation_failed', says: /'organization'/ }],
    ['/manage/v1/events?since=x', 'A', { status: 422, code: 'validation_failed', says: /'since'/ }],
  ]
  test.each(refused)('%s', async (path, envelope, expected) => {
    expectRefusal(await gateway.ask({ path, key }), envelope, expected)
  })

  const LISTS = ['/usage', '/videos', '/webhook-endpoints', '/manage/v1/deliveries']
  const WRONG = [
    '0x10',
    '1e1',
    '10.0',
    '+7',
    '%2B7',
    '%205',
    '5%20',
    '05',
    '1_0',
    '-0',
    '0',
    '201',
    '',
    '%d9%a3',
    'Infinity',
  ]
  test.each(LISTS)('%s: a number is digits alone, from 1 to 200', async (path) => {
    for (const limit of WRONG) {
      const refused = await gateway.ask({ path: `${path}?limit=${limit}`, key })
      const expected = { status: 422, code: 'validation_failed', says: /'limit': must be a whole number from 1 to 200/ }
      if (path === '/videos') expectRefusal(refused, 'B', { ...expected, param: 'limit' })
      else expectRefusal(refused, 'A', expected)
    }
    for (const limit of ['1', '10', '200', '%31']) {
      expect((await gateway.ask({ path: `${path}?limit=${limit}`, key })).status).toBe(200)
    }
  })

  test.each([
    'start=2026-01-01T00:00:00Z',
    'start=2026-01-01t00:00:00z',
    'start=2026-01-01T00:00:00%2B02:00',
    'start=2026-01-01t00:00:00.123456789-02:00',
    'start=2016-12-31T23:59:60Z',
    'start=2016-12-31t18:59:60.5-05:00',
  ])('a timestamp of RFC 3339: %s', async (query) => {
    expect((await gateway.ask({ path: `/usage?${query}`, key })).status).toBe(200)
  })

  test('a timestamp whose + was lost is told how to write it', async () => {
    const lost = await gateway.ask({ path: '/usage?start=2026-01-01T00:00:00+02:00', key })
    expectRefusal(lost, 'A', { status: 422, code: 'validation_failed', says: /'\+' .* arrived as a space.* %2B/ })
    const other = await gateway.ask({ path: '/usage?start=yesterday', key })
    expectRefusal(other, 'A', {
      status: 422,
      code: 'validation_failed',
      says: /'start': must be a date and time with an offset/,
    })
    expect(other.text).not.toContain('%2B')
  })

  test.each(['/models?', '/models?modality=chat', '/models/svc/demo?'])('%s is fine', async (path) => {
    expect((await gateway.ask({ path, key })).status).toBe(200)
  })

  test('of a chat request', async () => {
    const answer = await gateway.ask({ path: '/chat/completions?api-version=2', key, body: chat() })
    expectRefusal(answer, 'B', { status: 400, code: 'unsupported_parameter', param: 'api-version' })
  })
})

describe('a model in the path', () => {
  test.each(['svc/demo', 'svc%2Fdemo', 'svc%2fdemo', 'demo', 'vendor/demo', 'vendor%2Fdemo', 'svc/d%65mo'])(
    '%s is svc/demo (M1, M2)',
    async (id) => {
      const { json } = await gateway.ask({ path: `/models/${id}`, key })
      expect(json).toMatchObject({ id: 'svc/demo', pricing: { input_per_1m_tokens_cents: 100 } })
    },
  )

  test.each(['svc/demo:economy', 'svc%2Fdemo%3Aeconomy', 'demo:economy'])(
    '%s has the tier’s price (M3)',
    async (id) => {
      const { json } = await gateway.ask({ path: `/models/${id}`, key })
      // Under half a cent is shown as 0, half a cent as 1 (M5).
      const pricing = { currency: 'usd', input_per_1m_tokens_cents: 0, output_per_1m_tokens_cents: 1 }
      expect(json).toMatchObject({ id: 'svc/demo', pricing })
    },
  )

  test.each(['svc/soon', 'svc/retired'])('%s is listed (M4)', async (id) => {
    expect((await gateway.ask({ path: `/models/${id}`, key })).status).toBe(200)
  })

  test.each([
    ['svc/none', /'svc\/none'/],
    ['svc/dear:economy', /no economy tier/],
    ['svc/demo:economy:economy', /does not exist/],
    ['SVC/DEMO', /does not exist/],
    ['svc%252Fdemo', /'svc%2Fdemo'/],
    ['/svc/demo', /does not exist/],
    ['svc//demo', /does not exist/],
    ['svc/demo/', /does not exist/],
    ['', /does not exist/],
    ['%zz', /'%zz'/],
    ['%', /does not exist/],
    ['%ff', /does not exist/],
    ['a%00b', /does not exist/],
    ['..%2f..%2fhealth', /does not exist/],
    ['%F0%9F%98%80', /'😀'/],
    ['constructor', /does not exist/],
    ['__proto__', /does not exist/],
    ['x'.repeat(9_000), /x{100}…' does not exist/],
  ])('%s is none', async (id, says) => {
    const answer = await gateway.ask({ path: `/models/${id}`, key })
    expectRefusal(answer, 'B', { status: 404, code: 'model_not_found', says })
    expect(answer.text.length).toBeLessThan(400)
  })
})

describe('X-Request-Id', () => {
  const places: [string, string][] = [
    ['a success', '/models'],
    ['a refusal of B', '/models/x'],
    ['a refusal of A', '/billing/deposits'],
    ['a page of videos', '/videos'],
    ['a video that is none', '/videos/x/content'],
    ['a page of webhook endpoints', '/webhook-endpoints'],
    ['a page of deliveries', '/manage/v1/deliveries'],
    ['an unknown path', '/x'],
    ['health', '/health'],
    ['the description', '/openapi.json'],
  ]
  test.each(places)('is echoed by %s, in the body of A too', async (_name, path) => {
    const answer = await gateway.ask({ path, key, headers: { 'X-Request-Id': 'mine, twice: {"a"}' } })
    expect(answer.headers.get('X-Request-Id')).toBe('mine, twice: {"a"}')
    const { request_id } = answer.json as { request_id?: string }
    expect(request_id ?? 'mine, twice: {"a"}').toBe('mine, twice: {"a"}')
  })

  test.each(places)('is made by %s where it is too long', async (_name, path) => {
    const headers = { 'X-Request-Id': 'x'.repeat(129) }
    expect((await gateway.ask({ path, key, headers })).headers.get('X-Request-Id')).toMatch(/^[0-9a-f]{32}$/)
  })

  test.each(places)('of bytes above 127 is echoed by %s', async (_name, path) => {
    const id = 'caf\xc3\xa9 \x80\xff'
    const answer = await gateway.ask({ path, key, headers: { 'X-Request-Id': id } })
    expect(answer.headers.get('X-Request-Id')).toBe(id)
    expect((answer.json as { request_id?: string }).request_id ?? id).toBe(id)
  })

  test('is on what was made and given again, and on what was refused', async () => {
    const headers = { 'X-Request-Id': 'mine', 'Idempotency-Key': 'mine' }
    const told = async (question: Question) => {
      const answer = await gateway.ask({ ...question, key, headers })
      return [answer.status, answer.headers.get('X-Request-Id'), answer.json] as const
    }
    for (const path of ['/videos', '/videos']) {
      expect(await told({ path, body: film() })).toMatchObject([202, 'mine', { status: 'queued' }])
    }
    const mismatch = { code: 'idempotency_mismatch', request_id: 'mine' }
    expect(await told({ path: HOOKS, body: HOOK })).toMatchObject([422, 'mine', mismatch])
  })

  test('is on whole and streamed answers of chat, and on events of a refused stream', async () => {
    const headers = { 'X-Request-Id': 'mine' }
    for (const body of [chat(), chat({ stream: true }), chat({ stream: true, model: 'svc/x' })]) {
      const answer = await gateway.ask({ path: '/chat/completions', key, body, headers })
      expect([answer.status, answer.headers.get('X-Request-Id')]).toEqual([200, 'mine'])
    }
  })
})

describe('an answer that needed a key is kept by no cache and is of no other type (E18)', () => {
  const privacyOf = ({ headers }: { readonly headers: Headers }) => [
    headers.get('Cache-Control'),
    headers.get('X-Content-Type-Options'),
  ]
  test.each([
    ['/models', 'private, no-cache'],
    ['/models/svc/demo', 'private, no-cache'],
    ['/models/svc/none', 'no-store'],
    ['/models?x=1', 'no-store'],
    ['/billing/balance', 'no-store'],
    ['/billing/deposits', 'no-store'],
    ['/usage', 'no-store'],
    ['/videos', 'no-store'],
    ['/videos/x', 'no-store'],
    ['/videos/x/content', 'no-store'],
    ['/inference/preflight?model=svc/demo', 'no-store'],
    ['/webhook-endpoints', 'no-store'],
    ['/manage/v1/deliveries', 'no-store'],
  ])('%s: %s; without a key, and by HEAD', async (path, cached) => {
    expect(privacyOf(await gateway.ask({ path, key }))).toEqual([cached, 'nosniff'])
    expect(privacyOf(await gateway.ask({ method: 'HEAD', path, key }))).toEqual([cached, 'nosniff'])
    expect(privacyOf(await gateway.ask({ path }))).toEqual(['no-store', 'nosniff'])
  })

  test('chat, whole, streamed and refused', async () => {
    const path = '/chat/completions'
    expect(privacyOf(await gateway.ask({ path, key, body: chat() }))).toEqual(['no-store', 'nosniff'])
    expect(privacyOf(await gateway.ask({ path, key, body: chat({ stream: true }) }))).toEqual(['no-cache', 'nosniff'])
    expect(privacyOf(await gateway.ask({ path, key, body: '{' }))).toEqual(['no-store', 'nosniff'])
  })

  test.each(['/health', '/openapi.json', '/nothing'])('%s needs none, and says nothing of caches', async (path) => {
    expect(privacyOf(await gateway.ask({ path }))).toEqual([null, null])
  })
})

test('a GET that announces too long a body is refused before its key is looked at', async () => {
  for (const path of ['/models', '/billing/balance', '/videos/x']) {
    const headers = { 'Content-Length': '9000000' }
    const refused = await gateway.ask({ path, headers })
    expectRefusal(refused, path === '/billing/balance' ? 'A' : 'B', { status: 413, code: 'request_too_large' })
  }
})
