/**
 * The refusals of checkouts, the portal, top-ups and payments, where payments are on (section 4 of the interface,
 * B4).
 */

import { SETTINGS } from './catalog.ts'
import { type Row, UNKNOWN_KEY, UUID } from './rows.ts'

/** Of the plans, `small` can be bought, and `large` has no price. */
export const PAYING_SETTINGS = `${SETTINGS.replace(
  'weekly_tokens: 150 }',
  'weekly_tokens: 150, payment_price: local_2000_month }',
)}
public_url: https://tollgate.test
payments: { provider: local }
`

const CHECKOUT = '/billing/subscription/checkout'
const PORTAL = '/billing/subscription/portal'
const TOP_UPS = '/manage/v1/top-ups'
const PAYMENTS = '/manage/v1/payments'
const SUBSCRIPTION = '/billing/subscription'
const AUTO_PAY = '/manage/v1/auto-pay'

const INVALID = { status: 422, code: 'validation_failed' }
const FORBIDDEN = { status: 403, code: 'insufficient_scope' }

/** Keys are named as `errorTables.test.ts` makes them; `subscribed`, `unbilled` and `frozen` are admins'. */
export function ofPayments(): [string, Row][] {
  const checkout = { path: CHECKOUT, key: 'admin' }
  const portal = { path: PORTAL, key: 'admin' }
  const topUp = { path: TOP_UPS, key: 'good', body: { amount_cents: 500 } }
  const none = { status: 404, code: 'not_found' }
  const rows: [string, Row][] = [
    [
      'checkout, a plan that there is not',
      { ...checkout, body: { plan_key: 'gold' }, status: 400, code: 'validation-error', says: /no plan 'gold'/ },
    ],
    [
      'checkout, a plan that can not be bought',
      { ...checkout, body: { plan_key: 'large' }, status: 503, code: 'payment-source-unavailable', says: /no price/ },
    ],
    [
      'checkout, subscribed already',
      { ...checkout, key: 'subscribed', body: {}, status: 409, code: 'subscription-exists', says: /billing portal/ },
    ],
    ['checkout, another field', { ...checkout, body: { plan: 'small' }, ...INVALID, says: /'plan'/ }],
    ['checkout, malformed JSON', { ...checkout, body: '{', ...INVALID }],
    ['checkout, plain http', { ...checkout, body: { success_url: 'http://shop.example/' }, ...INVALID, says: /https/ }],
    ['checkout, a large body', { ...checkout, body: ' '.repeat(65_537), status: 413, code: 'request_too_large' }],
    ['portal, no billing account', { ...portal, key: 'unbilled', body: {}, ...none, says: /no billing account yet/ }],
    ['portal, another field', { ...portal, body: { url: 'https://shop.example/' }, ...INVALID, says: /'url'/ }],
    ['portal, a script', { ...portal, body: { return_url: 'javascript:alert(1)' }, ...INVALID, says: /return_url/ }],
    ['top-up, too little', { ...topUp, body: { amount_cents: 499 }, ...INVALID, says: /amount_cents/ }],
    ['top-up, no amount', { ...topUp, body: {}, ...INVALID, says: /'amount_cents' is required/ }],
    ['top-up, not by a reader', { ...topUp, key: 'reader', ...FORBIDDEN, says: /billing:write/ }],
    ['no such payment', { path: `${PAYMENTS}/${UUID}`, key: 'good', ...none, says: /no such payment/ }],
    ['a malformed id', { path: `${PAYMENTS}/x`, key: 'good', ...none }],
    ['a cursor', { path: `${PAYMENTS}?cursor=x`, key: 'good', ...INVALID, says: /'cursor'/ }],
    ['a limit', { path: `${PAYMENTS}?limit=201`, key: 'good', ...INVALID, says: /'limit'/ }],
  ]
  rows.push(...ofAutoPay(), ...ofReading())
  for (const path of [CHECKOUT, PORTAL]) {
    rows.push(
      [`not an admin, ${path}`, { path, key: 'good', body: {}, ...FORBIDDEN, says: /organization admin/ }],
      [`scope, ${path}`, { path, key: 'reader', body: {}, ...FORBIDDEN, says: /billing:write/ }],
    )
  }
  for (const [path, body] of [
    [CHECKOUT, {}],
    [TOP_UPS, { amount_cents: 500 }],
  ] as const) {
    const frozen = { key: 'frozen', status: 403, code: 'org-frozen', says: /Ask the operator/ }
    rows.push([`frozen, ${path}`, { path, body, ...frozen }])
  }
  for (const path of [CHECKOUT, PORTAL, TOP_UPS]) {
    const asked = { path, body: {} }
    rows.push(
      [`no key, ${path}`, { ...asked, status: 401, code: 'unauthenticated' }],
      [`an unknown key, ${path}`, { ...asked, key: UNKNOWN_KEY, status: 401, code: 'invalid_api_key' }],
      [`a wrong method, ${path}`, { path, key: 'admin', status: 405, code: 'method_not_allowed', allow: 'POST' }],
    )
  }
  return rows.map(([name, row]) => [`payments: ${name}`, row])
}

/** Of auto-pay, where no payment method is saved. */
function ofAutoPay(): [string, Row][] {
  const autoPay = { method: 'PUT', path: AUTO_PAY, key: 'admin' }
  const terms = { enabled: true, threshold_cents: 100, amount_cents: 500 }
  const missing = { status: 409, code: 'payment_method_missing' }
  return [
    ['auto-pay, no saved payment method', { ...autoPay, body: terms, ...missing }],
    ['auto-pay, no word on whether it is on', { ...autoPay, body: {}, ...INVALID, says: /'enabled' is required/ }],
    ['auto-pay, another field', { ...autoPay, body: { ...terms, currency: 'eur' }, ...INVALID, says: /'currency'/ }],
    ['auto-pay, too little', { ...autoPay, body: { ...terms, amount_cents: 499 }, ...INVALID, says: /amount_cents/ }],
    ['auto-pay, not an admin', { ...autoPay, key: 'good', body: terms, ...FORBIDDEN, says: /organization admin/ }],
    ['auto-pay, seen by an admin alone', { path: AUTO_PAY, key: 'good', ...FORBIDDEN, says: /organization admin/ }],
  ]
}

/** Of those who may not read payments. */
function ofReading(): [string, Row][] {
  const rows: [string, Row][] = [
    ['subscription, no scope', { path: SUBSCRIPTION, key: 'chat only', ...FORBIDDEN, says: /billing:read/ }],
    ['payments, no scope', { path: PAYMENTS, key: 'chat only', ...FORBIDDEN, says: /billing:read/ }],
  ]
  for (const path of [SUBSCRIPTION, PAYMENTS, AUTO_PAY]) {
    rows.push(
      [`no key, ${path}`, { path, status: 401, code: 'unauthenticated' }],
      [`an unknown key, ${path}`, { path, key: UNKNOWN_KEY, status: 401, code: 'invalid_api_key' }],
    )
  }
  return rows
}
