/** The refusals of `/webhook-endpoints` and the management interface. */

import { type Row, UUID } from './rows.ts'

export const HOOKS = '/webhook-endpoints'
/** The body that makes an endpoint. */
export const HOOK = { url: 'https://example.com/hook', event_types: ['video.completed', 'video.failed'] }
const DELIVERIES = '/manage/v1/deliveries'

/** Of endpoints, and what the management interface says of deliveries. */
export function ofWebhooks(): [string, Row][] {
  const good = { path: HOOKS, key: 'good', body: HOOK }
  const invalid = { status: 422, code: 'validation_failed' }
  const none = { key: 'good', status: 404, code: 'not_found' }
  const rows: [string, Row][] = [
    ['no Idempotency-Key', { ...good, ...invalid, says: /header Idempotency-Key/ }],
    ['malformed JSON', { ...good, body: '{', ...invalid }],
    ['no url', { ...good, body: { ...HOOK, url: undefined }, ...invalid, says: /'url' is required/ }],
    ['plain http', { ...good, body: { ...HOOK, url: 'http://example.com/' }, ...invalid, says: /https/ }],
    [
      'an inner address',
      { ...good, body: { ...HOOK, url: 'https://127.0.0.1/' }, ...invalid, says: /public internet/ },
    ],
    [
      'a shortcut for all types',
      { ...good, body: { ...HOOK, event_types: ['*'] }, ...invalid, says: /must be one of/ },
    ],
    ['another field', { ...good, body: { ...HOOK, enabled: false }, ...invalid, says: /'enabled'/ }],
    ['a cursor', { path: `${HOOKS}?cursor=x`, key: 'good', ...invalid, says: /'cursor'/ }],
    ['a parameter twice', { path: `${HOOKS}?limit=1&limit=2`, key: 'good', ...invalid, says: /more than once/ }],
    ['no key', { path: HOOKS, status: 401, code: 'unauthenticated' }],
    ['scope', { ...good, key: 'reader', status: 403, code: 'insufficient_scope', says: /webhooks:write/ }],
    ['no endpoint', { path: `${HOOKS}/${UUID}`, method: 'DELETE', ...none }],
    ['a malformed id', { path: `${HOOKS}/x`, method: 'DELETE', ...none }],
    [
      'a wrong method',
      { path: `${HOOKS}/${UUID}`, key: 'good', status: 405, code: 'method_not_allowed', allow: 'DELETE' },
    ],
    ['a large body', { ...good, body: ' '.repeat(65_537), status: 413, code: 'request_too_large' }],
    ['no delivery to show', { path: `${DELIVERIES}/${UUID}`, ...none }],
    ['no delivery', { path: `${DELIVERIES}/${UUID}/redeliver`, method: 'POST', ...none }],
    ['no endpoint to try', { path: `/manage/v1${HOOKS}/${UUID}/test`, method: 'POST', ...none }],
    ['a state that is none', { path: `${DELIVERIES}?state=x`, key: 'good', ...invalid, says: /'state'/ }],
    ['scope of deliveries', { path: DELIVERIES, key: 'chat only', status: 403, code: 'insufficient_scope' }],
  ]
  return rows.map(([name, row]) => [`webhooks: ${name}`, row])
}
