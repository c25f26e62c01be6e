import type { Question } from './ask.ts'
import type { Expected } from './refusals.ts'

export const UNKNOWN_KEY = `svc_live_${'a'.repeat(24)}`
/** Of an expired video of the key `good`, and of nothing else. */
export const UUID = '01900000-0000-7000-8000-000000000000'

/** A request and what it is refused with. Keys are named as `errorTables.test.ts` makes them. */
export interface Row extends Omit<Question, 'key'>, Expected {
  readonly key?: string
}

/** A good request of an endpoint, with something laid over it. */
export type Make = (more?: Readonly<Record<string, unknown>>) => unknown

/** Returns the refusals of every paid endpoint before its call begins. */
export function ofPaid(path: string, make: Make, allow: string): [string, Row][] {
  const asked = { path, key: 'good' }
  const rows: [string, Row][] = [
    ['malformed JSON', { ...asked, body: '{', status: 400, code: 'invalid_request' }],
    ['tools', { ...asked, body: make({ tools: [] }), status: 400, code: 'unsupported_parameter', param: 'tools' }],
    ['no key', { path, body: make(), status: 401, code: 'unauthenticated' }],
    ['an unknown key', { path, key: UNKNOWN_KEY, body: make(), status: 401, code: 'invalid_api_key' }],
    ['no balance', { path, key: 'poor', body: make(), status: 402, code: 'insufficient_balance' }],
    ['scope', { path, key: 'reader', body: make(), status: 403, code: 'insufficient_scope', says: /serverless:write/ }],
    ['no model', { ...asked, body: make({ model: 'svc/x' }), status: 404, code: 'model_not_found', param: 'model' }],
    [
      'a chat model',
      { ...asked, body: make({ model: 'svc/demo' }), status: 404, code: 'model_not_found', param: 'model' },
    ],
    [
      'no such tier',
      { ...asked, body: make({ model: 'svc/film:economy' }), status: 404, code: 'model_not_found', param: 'model' },
    ],
    ['a wrong method', { ...asked, method: 'PUT', status: 405, code: 'method_not_allowed', allow }],
    ['a large body', { ...asked, body: ' '.repeat(65_537), status: 413, code: 'request_too_large' }],
    [
      'unknown keys without end',
      {
        path,
        key: UNKNOWN_KEY,
        body: make(),
        address: '192.0.2.60',
        status: 401,
        code: 'invalid_api_key',
      },
    ],
  ]
  return rows.map(([name, row]) => [`${name}, ${path}`, row])
}
