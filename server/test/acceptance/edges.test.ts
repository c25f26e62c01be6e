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
    '/completions',
  ])('in A, with B beside it for clients that know nothing else: %s', async (path) => {
    const answer = await gateway.ask({ path, key })
    expect(answer.headers.get('Content-Type')).toBe('application/problem+json')
    expect(answer.json).toEqual({ ...problem(answer, unknown), ...errorObject(unknown) })
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
    ['/webhook-endpoints?after=x', 'A', { status: 422, code: 'validation_failed', says: /'after'/ }],
    ['/manage/v1/deliveries?organization=x', 'A', { status: 422, code: 'validation_failed', says: /'organization'/ }],
    ['/manage/v1/events?since=x', 'A', { status: 422, code: 'validation_failed', says: /'since'/ }],
  ]
  test.each(refused)('%s', async (path, envelope, expected) => {
    expectRefusal(await gateway.ask({ path, key }), envelope, expected)
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

  test('a path whose other names are percent-encoded means the same', async () => {
    expect((await gateway.ask({ path: '/%6dodels/svc/demo', key })).status).toBe(200)
    expectRefusal(await gateway.ask({ path: '/%6dodels/svc/x', key }), 'B', { status: 404, code: 'model_not_found' })
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
