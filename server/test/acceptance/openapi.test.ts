/** `/openapi.json`: valid, complete for what is served, and fit for generating clients from. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { ERROR_CATALOGUE } from '../../src/lib/errors.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import type { Document } from './description.ts'
import { PAYING_SETTINGS } from './paymentRows.ts'

let gateway: AskedGateway
/** With payments. */
let paying: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway()
  paying = await openAskedGateway({ settings: PAYING_SETTINGS, beside: gateway })
})
afterAll(async () => {
  await paying.close()
  await gateway.close()
})

const OPERATIONS = {
  'get /health': 'getHealth',
  'get /openapi.json': 'getDescription',
  'get /usage': 'listUsage',
  'get /models': 'listModels',
  'get /models/{id}': 'retrieveModel',
  'post /chat/completions': 'createChatCompletion',
  'post /embeddings': 'createEmbeddings',
  'post /images/generations': 'createImages',
  'post /videos': 'createVideo',
  'get /videos': 'listVideos',
  'get /videos/{id}': 'retrieveVideo',
  'get /videos/{id}/content': 'downloadVideo',
  'post /videos/{id}/cancel': 'cancelVideo',
  'get /inference/preflight': 'getInferencePreflight',
  'get /webhook-endpoints': 'listWebhookEndpoints',
  'post /webhook-endpoints': 'createWebhookEndpoint',
  'delete /webhook-endpoints/{id}': 'deleteWebhookEndpoint',
  'get /billing/balance': 'getBalance',
  'get /billing/subscription': 'getSubscription',
  'get /billing/spending-limit': 'getSpendingLimit',
  'put /billing/spending-limit': 'setSpendingLimit',
}

/** E13. */
const WITHOUT_CONDITION = [
  'invalid_gpu_type',
  'disk_unavailable',
  'disk_exceeds_offering',
  'model_too_large',
  'gpu_vram_too_small',
  'price_changed',
  'creator_check_unavailable',
]

test('is valid OpenAPI 3.1', async () => {
  const validator = new Validator()
  const result = await validator.validate({ ...gateway.description })
  expect(result).toEqual({ valid: true })
  expect(validator.version).toBe('3.1')
})

test('that of the management interface too, with names of its own', async () => {
  expect(await new Validator().validate({ ...gateway.managed })).toEqual({ valid: true })
  const names = Object.values(gateway.managed.paths).flatMap((item) =>
    Object.values(item).map(({ operationId }) => operationId),
  )
  expect(names).toEqual([
    'getOwnKey',
    'getLimits',
    'listNotices',
    'listCharges',
    'exportCharges',
    'listLedgerEntries',
    'getStatement',
    'listUsageGroups',
    'listDeliveries',
    'retrieveDelivery',
    'redeliver',
    'followEvents',
    'testWebhookEndpoint',
  ])
})

test('carries version 1.0.0', () => {
  expect(gateway.description.info.version).toBe('1.0.0')
})

test('describes what is served and nothing else, each under a name of its own', () => {
  const operations = Object.entries(gateway.description.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, { operationId }]) => [`${method} ${path}`, operationId]),
  )
  expect(Object.fromEntries(operations)).toEqual(OPERATIONS)
})

test('with payments it has what they add, and is valid', async () => {
  for (const document of [paying.description, paying.managed]) {
    expect(await new Validator().validate({ ...document })).toEqual({ valid: true })
  }
  const added = (without: Document, document: Document) =>
    Object.entries(document.paths).flatMap(([path, item]) =>
      Object.keys(item)
        .filter((method) => without.paths[path]?.[method] === undefined)
        .map((method) => {
          const name = `${method} ${path}`
          return [name, item[method]?.operationId, statusesOf(document, name)]
        }),
    )
  const late = [413, 422, 429, 500, 503]
  expect(added(gateway.description, paying.description)).toEqual([
    ['post /billing/subscription/checkout', 'createSubscriptionCheckout', [200, 400, 401, 403, 409, ...late]],
    ['post /billing/subscription/portal', 'createSubscriptionPortal', [200, 401, 403, 404, 409, ...late]],
  ])
  expect(added(gateway.managed, paying.managed)).toEqual([
    ['get /auto-pay', 'getAutoPay', [200, 401, 403, ...late]],
    ['put /auto-pay', 'setAutoPay', [200, 401, 403, 409, ...late]],
    ['post /top-ups', 'createTopUp', [201, 401, 403, 409, ...late]],
    ['get /payments', 'listPayments', [200, 401, 403, ...late]],
    ['get /payments/{id}', 'getPayment', [200, 401, 403, 404, ...late]],
  ])
})

test('enumerates every code, those without a condition too', () => {
  const { Problem } = gateway.description.components.schemas
  const codes: string[] = Problem?.['properties'].code.enum
  expect(codes).toEqual([...new Set(codes)])
  expect(codes).toEqual(
    expect.arrayContaining([...Object.keys(ERROR_CATALOGUE), ...WITHOUT_CONDITION, 'operation_failed']),
  )
})

test('points nowhere that is not there, and holds nothing unused', () => {
  const text = JSON.stringify(gateway.description)
  const used = new Set([...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name ?? ''))
  expect([...used].sort()).toEqual(Object.keys(gateway.description.components.schemas).sort())
})

describe('each operation', () => {
  test.each([
    ['get /health', [200, 413, 422]],
    ['get /openapi.json', [200, 413, 422, 429]],
    ['get /models', [200, 304, 400, 401, 403, 413, 429, 500, 503]],
    ['get /models/{id}', [200, 304, 400, 401, 403, 404, 413, 429, 500, 503]],
    ['post /chat/completions', [200, 400, 401, 402, 403, 404, 409, 413, 422, 429, 500, 502, 503, 504]],
    ['post /videos', [202, 400, 401, 402, 403, 404, 409, 413, 422, 429, 500, 503]],
    ['get /videos', [200, 400, 401, 403, 413, 422, 429, 500, 503]],
    ['get /videos/{id}', [200, 400, 401, 403, 404, 413, 429, 500, 503]],
    ['get /videos/{id}/content', [200, 206, 304, 400, 401, 403, 404, 410, 413, 416, 422, 429, 500, 503]],
    ['post /videos/{id}/cancel', [200, 400, 401, 403, 404, 409, 413, 422, 429, 500, 503]],
    ['get /inference/preflight', [200, 400, 401, 403, 404, 413, 429, 500, 503]],
    ['get /billing/subscription', [200, 401, 403, 413, 422, 429, 500, 503]],
    ['get /webhook-endpoints', [200, 401, 403, 413, 422, 429, 500, 503]],
    ['post /webhook-endpoints', [201, 401, 403, 409, 413, 422, 429, 500, 503]],
    ['delete /webhook-endpoints/{id}', [204, 401, 403, 404, 409, 413, 422, 429, 500, 503]],
    ['get /billing/balance', [200, 401, 403, 413, 422, 429, 500, 503]],
  ])('%s has the statuses %j', (name, statuses) => {
    expect(statusesOf(gateway.description, name)).toEqual(statuses)
  })

  test.each([
    ['get /key', [200, 401, 403, 413, 422, 429, 500, 503]],
    ['get /deliveries', [200, 401, 403, 413, 422, 429, 500, 503]],
    ['get /deliveries/{id}', [200, 401, 403, 404, 413, 422, 429, 500, 503]],
    ['post /deliveries/{id}/redeliver', [202, 401, 402, 403, 404, 409, 413, 422, 429, 500, 503]],
    ['get /usage', [200, 401, 403, 413, 422, 429, 500, 503]],
    ['get /limits', [200, 401, 403, 413, 422, 429, 500, 503]],
    ['get /notices', [200, 401, 403, 413, 422, 429, 500, 503]],
    ['get /ledger', [200, 401, 403, 413, 422, 429, 500, 503]],
    ['get /charges', [200, 401, 403, 413, 422, 429, 500, 503]],
    ['get /charges/export', [200, 401, 403, 413, 422, 429, 500, 503]],
    ['get /statements/{month}', [200, 401, 403, 404, 413, 422, 429, 500, 503]],
    ['get /events', [200, 401, 403, 413, 422, 429, 500, 503]],
    ['post /webhook-endpoints/{id}/test', [202, 401, 402, 403, 404, 409, 413, 422, 429, 500, 503]],
  ])('of the management interface: %s has the statuses %j', (name, statuses) => {
    expect(statusesOf(gateway.managed, name)).toEqual(statuses)
  })

  test.each([
    ['post /videos', 202, ['Idempotency-Replayed']],
    ['get /videos', 200, []],
    ['get /videos/{id}', 200, ['Svc-Queue-Position', 'Svc-Estimated-Seconds']],
    ['get /videos/{id}/content', 200, ['ETag', 'Last-Modified', 'Accept-Ranges']],
    ['get /videos/{id}/content', 206, ['ETag', 'Last-Modified', 'Accept-Ranges', 'Content-Range']],
    ['get /videos/{id}/content', 416, ['ETag', 'Last-Modified', 'Accept-Ranges', 'Content-Range']],
    ['post /videos/{id}/cancel', 200, ['Idempotency-Replayed']],
    ['post /webhook-endpoints', 201, ['Idempotency-Replayed']],
    ['post /webhook-endpoints', 409, ['Retry-After']],
    ['delete /webhook-endpoints/{id}', 204, ['Idempotency-Replayed']],
    ['post /chat/completions', 429, ['Retry-After', 'x-should-retry']],
  ])('%s: %i has the headers that all have, and %j', (name, status, own) => {
    const [method = '', path = ''] = name.split(' ')
    const headers = gateway.description.paths[path]?.[method]?.responses[status]?.headers ?? {}
    const ofCaller = ['Cache-Control', 'X-Content-Type-Options']
    const ofAll = ['X-Request-Id', ...ofCaller, 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset']
    expect(Object.keys(headers)).toEqual([...ofAll, ...own])
  })

  test('takes the header Idempotency-Key where it does something, and must have it where an endpoint is made', () => {
    const takes = (document: Document) =>
      Object.entries(document.paths).flatMap(([path, item]) =>
        Object.entries(item).flatMap(([method, { parameters = [] }]) =>
          parameters
            .filter(({ name }) => name === 'Idempotency-Key')
            .map(({ required = false }) => `${method} ${path} ${required}`),
        ),
      )
    expect([...takes(gateway.description), ...takes(gateway.managed)]).toEqual([
      'post /chat/completions false',
      'post /embeddings false',
      'post /images/generations false',
      'post /videos false',
      'post /videos/{id}/cancel false',
      'post /webhook-endpoints true',
      'delete /webhook-endpoints/{id} false',
      'post /deliveries/{id}/redeliver false',
      'post /webhook-endpoints/{id}/test false',
    ])
  })
})

function statusesOf({ paths }: Document, name: string): number[] {
  const [method = '', path = ''] = name.split(' ')
  return Object.keys(paths[path]?.[method]?.responses ?? {}).map(Number)
}

test('is the same bytes each time, and needs no key', async () => {
  const first = await gateway.ask({ path: '/openapi.json' })
  const second = await gateway.ask({ path: '/openapi.json' })
  expect(second.text).toBe(first.text)
})

test('an unchanged catalog is 304 without a body, as described', async () => {
  const key = await gateway.customer()
  for (const path of ['/models', '/models/svc/sandbox']) {
    const fresh = await gateway.ask({ path, key })
    const again = await gateway.ask({ path, key, headers: { 'If-None-Match': fresh.headers.get('ETag') ?? '' } })
    expect([again.status, again.text]).toEqual([304, ''])
  }
})
