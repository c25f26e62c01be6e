/**
 * The rows of the two error tables of the interface's section 7, and those of them that other tests have.
 */

import { chat, directed, picture, words } from './catalog.ts'
import { type Make, ofPaid, type Row, UNKNOWN_KEY, UUID } from './rows.ts'
import { ofVideos } from './videoRows.ts'
import { ofWebhooks } from './webhookRows.ts'

export const balance = '/billing/balance'
const limit = '/billing/spending-limit'
/** `application/problem+json`: billing, usage, webhooks, operations. */
export const envelopeA: [string, Row][] = [
  ['no key', { path: balance, status: 401, code: 'unauthenticated' }],
  ['a malformed key', { path: balance, key: 'nonsense', status: 401, code: 'invalid_api_key' }],
  ['an unknown key', { path: balance, key: UNKNOWN_KEY, status: 401, code: 'invalid_api_key' }],
  ['an expired key', { path: balance, key: 'expired', status: 401, code: 'invalid_api_key' }],
  ['a revoked key', { path: balance, key: 'revoked', status: 401, code: 'invalid_api_key' }],
  ['scope', { path: balance, key: 'chat only', status: 403, code: 'insufficient_scope', says: /billing:read/ }],
  ['no such resource', { path: `/operations/${UUID}`, key: 'good', status: 404, code: 'not_found' }],
  ['a cursor', { path: '/usage?cursor=x', key: 'good', status: 422, code: 'validation_failed', says: /'cursor'/ }],
  ['no limit', { path: limit, key: 'good', status: 404, code: 'not_found', says: /No spending limit/ }],
  [
    'a field',
    {
      method: 'PUT',
      path: limit,
      key: 'admin',
      body: {},
      status: 422,
      code: 'validation_failed',
      says: /monthly_limit/,
    },
  ],
  ['not an admin', { method: 'PUT', path: limit, key: 'good', body: {}, status: 403, code: 'insufficient_scope' }],
  ['query', { path: `${balance}?at=now`, key: 'good', status: 422, code: 'validation_failed', says: /'at'/ }],
  [
    'unknown keys without end',
    { path: balance, key: UNKNOWN_KEY, address: '192.0.2.60', status: 401, code: 'invalid_api_key' },
  ],
  ['deposits that are not enabled', { path: '/billing/deposits', key: 'good', status: 404, code: 'not-found' }],
  ...['checkout', 'portal'].map((page): [string, Row] => [
    `subscriptions that are not configured, ${page}`,
    { path: `/billing/subscription/${page}`, key: 'admin', body: {}, status: 503, code: 'payment-source-unavailable' },
  ]),
  [
    'a wrong method',
    { path: balance, method: 'POST', key: 'good', status: 405, code: 'method_not_allowed', allow: 'GET, HEAD' },
  ],
  ...ofWebhooks(),
]

export const path = '/chat/completions'
const good = { path, key: 'good' }
const ofChat: [string, Row][] = [
  ['malformed JSON', { ...good, body: '{', status: 400, code: 'invalid_request' }],
  ['tools', { ...good, body: chat({ tools: [] }), status: 400, code: 'unsupported_parameter', param: 'tools' }],
  ...['json_object', 'json_schema'].map((type): [string, Row] => [
    `response_format ${type}`,
    {
      ...good,
      body: chat({ response_format: { type } }),
      status: 400,
      code: 'unsupported_parameter',
      param: 'response_format',
    },
  ]),
  [
    'too long for the model',
    {
      ...good,
      body: directed('fail=context_length'),
      status: 400,
      code: 'context_length_exceeded',
      param: 'messages',
    },
  ],
  ['no key', { path, body: chat(), status: 401, code: 'unauthenticated' }],
  ['a malformed key', { path, key: 'nonsense', body: chat(), status: 401, code: 'invalid_api_key' }],
  ['an unknown key', { path, key: UNKNOWN_KEY, body: chat(), status: 401, code: 'invalid_api_key' }],
  ['an expired key', { path, key: 'expired', body: chat(), status: 401, code: 'invalid_api_key' }],
  ['a revoked key', { path, key: 'revoked', body: chat(), status: 401, code: 'invalid_api_key' }],
  [
    'a cap',
    {
      path,
      key: 'capped',
      body: chat({ model: 'svc/dear' }),
      status: 402,
      code: 'quota_exceeded',
      says: /daily spending limit/,
    },
  ],
  ['no balance', { path, key: 'poor', body: chat(), status: 402, code: 'insufficient_balance' }],
  ['scope', { path, key: 'reader', body: chat(), status: 403, code: 'insufficient_scope', says: /serverless:write/ }],
  ['model', { ...good, body: chat({ model: 'svc/x' }), status: 404, code: 'model_not_found', param: 'model' }],
  ['a model in the path', { path: '/models/svc/x', key: 'good', status: 404, code: 'model_not_found' }],
  ['a path that nothing is at', { path: '/chat/x', key: 'good', status: 404, code: 'not_found' }],
  ['a wrong method', { ...good, method: 'GET', status: 405, code: 'method_not_allowed', allow: 'POST' }],
  ['a large body', { ...good, body: ' '.repeat(65_537), status: 413, code: 'request_too_large', says: /65536 bytes/ }],
  ['a field', { ...good, body: chat({ messages: 1 }), status: 422, code: 'validation_failed', param: 'messages' }],
  [
    'unknown keys without end',
    {
      path,
      key: UNKNOWN_KEY,
      body: chat(),
      address: '192.0.2.60',
      status: 401,
      code: 'invalid_api_key',
    },
  ],
  [
    "a plan's quota",
    {
      path,
      key: 'used up',
      body: chat({ model: 'svc/covered' }),
      status: 429,
      code: 'subscription_quota_exhausted',
      retryAfter: 30 * 86_400,
      shouldRetry: 'false',
      says: /quota of your subscription is used up/,
    },
  ],
  [
    "a plan's quota in the grace after its period",
    {
      path,
      key: 'used up in grace',
      body: chat({ model: 'svc/covered' }),
      status: 429,
      code: 'subscription_quota_exhausted',
      retryAfter: 60,
      shouldRetry: 'false',
      says: /quota of your subscription is used up/,
    },
  ],
  ...Object.entries({
    'a batch of embeddings over the limit': [words({ input: new Array(2_049).fill('x') }), 'invalid_request', 'input'],
    'encoding_format base64': [words({ encoding_format: 'base64' }), 'unsupported_parameter', 'encoding_format'],
    'token ids': [words({ input: [1, 2] }), 'invalid_request', 'input'],
  } as const).map(([name, [body, code, param]]): [string, Row] => [
    name,
    { path: '/embeddings', key: 'good', body, status: 400, code, param },
  ]),
  [
    'embeddings that would be too large',
    {
      path: '/embeddings',
      key: 'good',
      body: words({ input: new Array(1_000).fill('x'), dimensions: 65_536 }),
      status: 502,
      code: 'upstream_response_too_large',
      says: /fewer inputs/,
    },
  ],
  [
    'response_format url',
    {
      path: '/images/generations',
      key: 'good',
      body: picture({ response_format: 'url' }),
      status: 400,
      code: 'unsupported_parameter',
      param: 'response_format',
    },
  ],
  [
    'no image at all',
    {
      path: '/images/generations',
      key: 'good',
      body: picture({ n: 0 }),
      status: 422,
      code: 'validation_failed',
      param: 'n',
    },
  ],
  [
    'preflight without a model',
    { path: '/inference/preflight', key: 'good', status: 400, code: 'invalid_request', param: 'model' },
  ],
  [
    'preflight of no model',
    { path: '/inference/preflight?model=x', key: 'good', status: 404, code: 'model_not_found', param: 'model' },
  ],
  ['a faulty provider', { ...good, body: directed('fail=faulty'), status: 502, code: 'upstream_error' }],
  [
    'no provider',
    { ...good, body: directed('fail=unavailable'), status: 503, code: 'upstream_unavailable', retryAfter: 1 },
  ],
  ['a late provider', { ...good, body: directed('fail=timeout'), status: 504, code: 'upstream_timeout' }],
]
const MANY = new Array(100).fill('word '.repeat(100))

/** And one that answers in one piece. `text`: the field of the prompt; `dear`: what costs more than a cent. */
function ofWhole(path: string, make: Make, text: string, dear: Readonly<Record<string, unknown>>): [string, Row][] {
  const failing = (failure: string) => ({ path, key: 'good', body: make({ [text]: `[[sandbox fail=${failure}]]` }) })
  const rows: [string, Row][] = [
    ['what the provider refuses', { ...failing('rejected'), status: 400, code: 'invalid_request' }],
    ['a cap', { path, key: 'capped', body: make(dear), status: 402, code: 'quota_exceeded', says: /daily spending/ }],
    ['a faulty provider', { ...failing('faulty'), status: 502, code: 'upstream_error' }],
    ['no provider', { ...failing('unavailable'), status: 503, code: 'upstream_unavailable', retryAfter: 1 }],
    ['a late provider', { ...failing('timeout'), status: 504, code: 'upstream_timeout' }],
  ]
  return [...ofPaid(path, make, 'POST'), ...rows.map(([name, row]): [string, Row] => [`${name}, ${path}`, row])]
}

/** Models, chat, embeddings, images, preflight, videos. */
export const envelopeB: [string, Row][] = [
  ...ofChat,
  ...ofWhole('/embeddings', words, 'input', { input: MANY }),
  ...ofWhole('/images/generations', picture, 'prompt', { n: 2 }),
  ...ofVideos(),
]

/** The interface's tables, row by row. Of envelope B, which prints few codes, the others are A's words (E3). */
export const TABLES: Readonly<Record<'A' | 'B', Readonly<Record<number, readonly string[]>>>> = {
  A: {
    400: ['validation-error', 'unsupported-chain-asset', 'invalid-request'],
    401: ['unauthenticated', 'invalid_api_key'],
    402: ['insufficient_balance', 'quota_exceeded'],
    403: ['insufficient_scope', 'org-frozen'],
    404: ['not_found', 'model_not_found', 'deposit-not-found', 'not-found'],
    409: ['idempotency_conflict'],
    422: ['idempotency_mismatch', 'validation_failed'],
    429: ['rate_limited'],
    500: ['operation_failed', 'internal_error'],
    503: ['payment-source-unavailable'],
  },
  B: {
    400: ['invalid_request', 'unsupported_parameter'],
    401: ['unauthenticated', 'invalid_api_key'],
    402: ['insufficient_balance', 'quota_exceeded'],
    403: ['insufficient_scope'],
    404: ['model_not_found'],
    409: ['idempotency_conflict'],
    410: ['expired'],
    413: ['request_too_large'],
    422: ['validation_failed', 'idempotency_mismatch'],
    429: ['rate_limit_exceeded', 'stream_limit_exceeded'],
    500: ['internal_error'],
    502: ['upstream_response_too_large', 'upstream_error'],
    503: ['upstream_unavailable'],
    504: ['upstream_timeout'],
  },
}

/** Rows that take more than one request: each has a test of its own in `errorTables.test.ts`. */
export const BY_THEMSELVES: readonly string[] = [
  'A 409 idempotency_conflict',
  'A 422 idempotency_mismatch',
  'A 429 rate_limited',
  'A 500 internal_error',
  'B 409 idempotency_conflict',
  'B 422 idempotency_mismatch',
  'B 429 stream_limit_exceeded',
  'B 500 internal_error',
]

/** Rows that only instances produce: each is in `instances.test.ts`. An operation that has failed shows the last, which is no answer's. */
export const OF_INSTANCES: readonly string[] = [
  'A 404 model_not_found',
  'A 402 insufficient_balance',
  'A 402 quota_exceeded',
  'A 500 operation_failed',
]

/** Rows that need a chain: each is in the tests of deposits, which name it. */
export const OF_DEPOSITS: readonly string[] = [
  'A 400 unsupported-chain-asset',
  'A 400 invalid-request',
  'A 404 deposit-not-found',
]
