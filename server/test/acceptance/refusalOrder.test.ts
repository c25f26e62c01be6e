/** E1: a request that is wrong in two ways gets the refusal that comes first. Each row is wrong in exactly the two named. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { systemClock } from '../../src/infra/clock.ts'
import { type AskedGateway, openAskedGateway, type Question } from './ask.ts'
import { cancelledInProgress } from './cancellations.ts'
import { chat, directed, film, picture, SETTINGS, words } from './catalog.ts'
import { useUpPlan } from './plans.ts'

const path = '/chat/completions'
const HOOKS = '/webhook-endpoints'
const ANNOUNCED = { 'Content-Length': '70000' }
const LARGE = ' '.repeat(70_000)
/** An address that has presented many unknown keys. */
const SEARCHING = '192.0.2.60'
const UNKNOWN_KEY = `svc_live_${'a'.repeat(24)}`
const BAD_BODY = chat({ temperature: 9 })
const NO_MODEL = { model: 'svc/x' }
const USED_KEY = { 'Idempotency-Key': 'used' }
const USED_FOR_VIDEO = { 'Idempotency-Key': 'used for a video' }
const LONG_KEY = { 'Idempotency-Key': 'k'.repeat(256) }

let gateway: AskedGateway
const keys: Record<string, string> = {}

beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS })
  const make = async (name: string, options: Parameters<AskedGateway['customer']>[0]) => {
    const customer = await gateway.customer(options)
    keys[name] = customer.key
    return customer
  }
  await make('good', {})
  await make('poor', { cents: 0 })
  await cancelledInProgress(gateway.database, await make('poor canceller', { cents: 0 }), 60, systemClock.now())
  await useUpPlan(gateway.database, await make('used up', { cents: 0 }))
  await make('billing only', { scopes: 'billing:write' })
  await make('reader', { scopes: 'read_only' })
  await make('expired reader', { scopes: 'read_only', expiresAtMs: 1 })
  await make('chat only', { scopes: 'serverless:write' })
  for (let index = 0; index < 60; index += 1) {
    await gateway.ask({ path: '/models', key: `svc_live_${`${index}`.padStart(24, '0')}`, address: SEARCHING })
  }
  for (const name of ['good', 'busy', 'canceller']) {
    const customer = name === 'good' ? null : await make(name, {})
    const used = await gateway.ask({ path, key: keys[name], body: chat(), headers: USED_KEY })
    expect(used.status).toBe(200)
    const video = await gateway.ask({ path: '/videos', key: keys[name], body: film(), headers: USED_FOR_VIDEO })
    expect(video.status).toBe(202)
    if (name === 'canceller' && customer !== null) {
      await cancelledInProgress(gateway.database, customer, 60, systemClock.now())
    }
  }
  await cancelledInProgress(gateway.database, await make('busy canceller', {}), 60, systemClock.now())
  // Two requests stay open, the most that a key may have; a cent is enough for them.
  const busyAndPoor = await make('busy and poor', { cents: 1 })
  const busy = [keys['busy'], keys['busy canceller'], busyAndPoor.key]
  for (const key of [...busy, ...busy]) {
    const body = JSON.stringify(directed('silent_after=1', { stream: true, max_tokens: 2 }))
    const response = await gateway.send(path, { method: 'POST', headers: { Authorization: `Bearer ${key}` }, body })
    const reader = response.body?.getReader()
    await reader?.read()
    leaving.push(async () => reader?.cancel())
  }
})
const leaving: (() => Promise<void>)[] = []
afterAll(async () => {
  for (const leave of leaving) await leave()
  await gateway.close()
})

type Row = [earlier: string, later: string, question: Omit<Question, 'key'> & { key?: string }, code: string]

const rows: Row[] = [
  ['404 route', '413 announced', { path: '/chat', body: '', headers: ANNOUNCED }, 'not_found'],
  ['404 route', '401', { path: '/nothing' }, 'not_found'],
  ['405', '413 announced', { path, method: 'PUT', headers: ANNOUNCED }, 'method_not_allowed'],
  ['405', '401', { path, method: 'GET' }, 'method_not_allowed'],
  ['405', '403', { path: '/billing/balance', method: 'DELETE', key: 'chat only' }, 'method_not_allowed'],
  ['413 announced', '401', { path, body: '', headers: ANNOUNCED }, 'request_too_large'],
  ['413 announced', '401 in A', { path: '/webhook-endpoints', body: '', headers: ANNOUNCED }, 'request_too_large'],
  [
    '413 announced',
    '404 video',
    { path: '/videos/v1/cancel', body: '', headers: ANNOUNCED, key: 'good' },
    'request_too_large',
  ],
  [
    '413 announced',
    '404 endpoint',
    { path: `${HOOKS}/x`, method: 'DELETE', headers: ANNOUNCED, key: 'good' },
    'request_too_large',
  ],
  ['413 announced', '403', { path, body: '', headers: ANNOUNCED, key: 'reader' }, 'request_too_large'],
  ['413 announced', '401 unknown', unknown({ headers: ANNOUNCED, body: '' }), 'request_too_large'],
  ['401 no key', '403', { path, body: chat(), address: SEARCHING }, 'unauthenticated'],
  ['401 malformed', '403', { path, body: chat(), address: SEARCHING, key: 'x' }, 'invalid_api_key'],
  ['401', '403', { path, body: chat(), key: 'expired reader' }, 'invalid_api_key'],
  ['401', '413 while reading', { path, body: LARGE }, 'unauthenticated'],
  ['401', 'malformed body', { path, body: '{' }, 'unauthenticated'],
  ['401', '404 model', { path: '/models/svc/x' }, 'unauthenticated'],
  ['401', '404 video', { path: '/videos/v1' }, 'unauthenticated'],
  ['401 unknown', '413 while reading', unknown({ body: LARGE }), 'invalid_api_key'],
  ['401 unknown', 'malformed body', unknown({ body: '{' }), 'invalid_api_key'],
  ['403', '413 while reading', { path, body: LARGE, key: 'reader' }, 'insufficient_scope'],
  ['403', 'malformed body', { path, body: '{', key: 'reader' }, 'insufficient_scope'],
  ['403', 'unknown query', { path: '/billing/balance?x=1', key: 'chat only' }, 'insufficient_scope'],
  ['403', '404 video', { path: '/videos/v1/cancel', body: {}, key: 'reader' }, 'insufficient_scope'],
  ['403', 'fields of a video', { path: '/videos', body: {}, key: 'reader' }, 'insufficient_scope'],
  [
    'fields of a video',
    '404 model',
    { path: '/videos', body: film({ seconds: 0, ...NO_MODEL }), key: 'good' },
    'validation_failed',
  ],
  ['fields of a video', '402', { path: '/videos', body: film({ seconds: 0 }), key: 'poor' }, 'validation_failed'],
  ['404 model of a video', '402', { path: '/videos', body: film(NO_MODEL), key: 'poor' }, 'model_not_found'],
  [
    "a model's own parameters of a video",
    '402',
    { path: '/videos', body: film({ seconds: 11 }), key: 'poor' },
    'invalid_request',
  ],
  [
    '429 open requests',
    "a model's own parameters of a video",
    { path: '/videos', body: film({ size: '64x64' }), key: 'busy' },
    'stream_limit_exceeded',
  ],
  ['413 announced', '429 open requests', { path, body: '', headers: ANNOUNCED, key: 'busy' }, 'request_too_large'],
  ['429 open requests', '413 while reading', { path, body: LARGE, key: 'busy' }, 'stream_limit_exceeded'],
  ['429 open requests', 'malformed body', { path, body: '{', key: 'busy' }, 'stream_limit_exceeded'],
  ['429 open requests', 'unknown query', { path: `${path}?x=1`, body: chat(), key: 'busy' }, 'stream_limit_exceeded'],
  [
    '429 open requests',
    '402 of a video',
    { path: '/videos', body: film({ seconds: 10 }), key: 'busy and poor' },
    'stream_limit_exceeded',
  ],
  [
    '422 mismatch',
    '404 model of a video',
    { path: '/videos', body: film(NO_MODEL), headers: USED_KEY, key: 'good' },
    'idempotency_mismatch',
  ],
  [
    '429 cancellations',
    '402 of a video',
    { path: '/videos', body: film(), key: 'poor canceller' },
    'rate_limit_exceeded',
  ],
  [
    '404 model of a video',
    '429 cancellations',
    { path: '/videos', body: film(NO_MODEL), key: 'poor canceller' },
    'model_not_found',
  ],
  [
    "a model's own parameters of a video",
    '429 cancellations',
    { path: '/videos', body: film({ seconds: 11 }), key: 'poor canceller' },
    'invalid_request',
  ],
  [
    '422 mismatch',
    '429 cancellations',
    { path: '/videos', body: film({ seconds: 3 }), headers: USED_FOR_VIDEO, key: 'canceller' },
    'idempotency_mismatch',
  ],
  [
    '429 open requests',
    '429 cancellations',
    { path: '/videos', body: film(), key: 'busy canceller' },
    'stream_limit_exceeded',
  ],
  ['unknown query', '404 video', { path: '/videos/v1?x=1', key: 'good' }, 'unsupported_parameter'],
  ['403', '503 not configured', { path: '/billing/subscription/portal', body: {}, key: 'good' }, 'insufficient_scope'],
  ['413 while reading', 'malformed body', { path, body: `{${LARGE}`, key: 'good' }, 'request_too_large'],
  ['413 while reading', 'unknown query', { path: `${path}?x=1`, body: LARGE, key: 'good' }, 'request_too_large'],
  ['malformed body', 'unknown query', { path: `${path}?x=1`, body: '{', key: 'good' }, 'invalid_request'],
  ['unknown query', '404 model', { path: '/models/svc/x?x=1', key: 'good' }, 'unsupported_parameter'],
  ['fields', '404 model', { path, body: { ...BAD_BODY, ...NO_MODEL }, key: 'good' }, 'validation_failed'],
  ['429 open requests', 'fields', { path, body: BAD_BODY, key: 'busy' }, 'stream_limit_exceeded'],
  ['fields', '402', { path, body: BAD_BODY, key: 'poor' }, 'validation_failed'],
  ['unsupported', 'out of range', { path, body: { ...BAD_BODY, tools: [] }, key: 'good' }, 'unsupported_parameter'],
  ['malformed body', '422 key', { path, body: '{', headers: LONG_KEY, key: 'good' }, 'invalid_request'],
  [
    'unknown query',
    '422 mismatch',
    { path: `${path}?x=1`, body: chat(), headers: USED_KEY, key: 'good' },
    'unsupported_parameter',
  ],
  ['fields', '422 mismatch', { path, body: BAD_BODY, headers: USED_KEY, key: 'good' }, 'validation_failed'],
  ['422 key', '404 model', { path, body: chat(NO_MODEL), headers: LONG_KEY, key: 'good' }, 'validation_failed'],
  ['422 mismatch', '404 model', { path, body: chat(NO_MODEL), headers: USED_KEY, key: 'good' }, 'idempotency_mismatch'],
  [
    '429 open requests',
    '422 mismatch',
    { path, body: chat({ max_tokens: 1 }), headers: USED_KEY, key: 'busy' },
    'stream_limit_exceeded',
  ],
  ['429 open requests', '404 model', { path, body: chat(NO_MODEL), key: 'busy' }, 'stream_limit_exceeded'],
  ['429 open requests', 'a replay', { path, body: chat(), headers: USED_KEY, key: 'busy' }, 'stream_limit_exceeded'],
  ['404 model', '402', { path, body: chat(NO_MODEL), key: 'poor' }, 'model_not_found'],
  [
    '429 open requests',
    '402',
    { path, body: chat({ model: 'svc/dear' }), key: 'busy and poor' },
    'stream_limit_exceeded',
  ],
  ['429 open requests', '503', { path, body: directed('fail=unavailable'), key: 'busy' }, 'stream_limit_exceeded'],
  [
    '429 plan',
    '402 balance',
    { path, body: chat({ model: 'svc/covered' }), key: 'used up' },
    'subscription_quota_exhausted',
  ],
  ['404 model', '429 plan', { path, body: chat(NO_MODEL), key: 'used up' }, 'model_not_found'],
  [
    '429 plan',
    '503',
    { path, body: directed('fail=unavailable', { model: 'svc/covered' }), key: 'used up' },
    'subscription_quota_exhausted',
  ],
  ['unknown query', '400 without a model', { path: '/inference/preflight?x=1', key: 'good' }, 'unsupported_parameter'],
  [
    '403',
    '404 model of preflight',
    { path: '/inference/preflight?model=x', key: 'billing only' },
    'insufficient_scope',
  ],
  ['402', '503', { path, body: directed('fail=unavailable'), key: 'poor' }, 'insufficient_balance'],
  ['fields', '404 model of embeddings', embed({ ...NO_MODEL, input: '' }, 'good'), 'invalid_request'],
  ['404 model of embeddings', '402', embed(NO_MODEL, 'poor'), 'model_not_found'],
  ['429 open requests', '404 model of embeddings', embed(NO_MODEL, 'busy'), 'stream_limit_exceeded'],
  ['429 open requests', '402 of embeddings', embed({}, 'busy'), 'stream_limit_exceeded'],
  ['402 of embeddings', '503', embed({ input: '[[sandbox fail=unavailable]]' }, 'poor'), 'insufficient_balance'],
  ['fields', '404 model of images', draw({ ...NO_MODEL, n: 0 }, 'good'), 'validation_failed'],
  ['404 model of images', 'what the model takes', draw({ ...NO_MODEL, n: 11 }, 'good'), 'model_not_found'],
  ['429 open requests', 'what the model takes', draw({ n: 11 }, 'busy'), 'stream_limit_exceeded'],
  ['what the model takes', '402', draw({ size: '65x65' }, 'poor'), 'invalid_request'],
  ['429 open requests', '503 of images', draw({ prompt: '[[sandbox fail=timeout]]' }, 'busy'), 'stream_limit_exceeded'],
  ['402 of images', '503', draw({ prompt: '[[sandbox fail=unavailable]]' }, 'poor'), 'insufficient_balance'],
  ['401', 'malformed body in A', { path: HOOKS, body: '{' }, 'unauthenticated'],
  ['403', 'malformed body in A', { path: HOOKS, body: '{', key: 'chat only' }, 'insufficient_scope'],
  ['malformed body in A', '422 without a key', { path: HOOKS, body: '{', key: 'good' }, 'validation_failed'],
  ['unknown query', '404 of A', { path: `${HOOKS}/x?x=1`, method: 'DELETE', key: 'good' }, 'validation_failed'],
  [
    '422 key',
    '404 of A',
    { path: `${HOOKS}/x`, method: 'DELETE', key: 'good', headers: LONG_KEY },
    'validation_failed',
  ],
  ['403', '404 of A', { path: `${HOOKS}/x`, method: 'DELETE', key: 'reader' }, 'insufficient_scope'],
  ['405', '401 of management', { path: '/manage/v1/deliveries', method: 'DELETE' }, 'method_not_allowed'],
  ['401', '422 of management', { path: '/manage/v1/deliveries?limit=0' }, 'unauthenticated'],
  ['403', '422 of management', { path: '/manage/v1/deliveries?limit=0', key: 'chat only' }, 'insufficient_scope'],
  ['402', '504', { path, body: directed('fail=timeout'), key: 'poor' }, 'insufficient_balance'],
  ['402', '400 of the provider', { path, body: directed('nonsense'), key: 'poor' }, 'insufficient_balance'],
]

function embed(more: Readonly<Record<string, unknown>>, key: string): Row[2] {
  return { path: '/embeddings', body: words(more), key }
}

function draw(more: Readonly<Record<string, unknown>>, key: string): Row[2] {
  return { path: '/images/generations', body: picture(more), key }
}

function unknown(more: Omit<Question, 'path' | 'key'>): Row[2] {
  return { path, key: UNKNOWN_KEY, address: SEARCHING, ...more }
}

test.each([
  [path, chat(), USED_KEY, 200],
  ['/videos', film(), USED_FOR_VIDEO, 202],
] as const)('%s: a replay comes before 429 cancellations', async (endpoint, body, headers, status) => {
  const answer = await gateway.ask({ path: endpoint, key: keys['canceller'], body, headers })
  expect([answer.status, answer.headers.get('Idempotency-Replayed')]).toEqual([status, 'true'])
})

test.each(rows)('%s before %s', async (_earlier, _later, question, code) => {
  const key = question.key === undefined ? undefined : (keys[question.key] ?? question.key)
  const { json } = await gateway.ask({ ...question, key })
  const body = json as { code?: string; error?: { code?: string } }
  expect(body.code ?? body.error?.code).toBe(code)
})
