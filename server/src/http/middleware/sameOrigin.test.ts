import { expect, test } from 'bun:test'
import { exchangeOf, TEST_KEY, TEST_SESSION } from '../../../test/exchange.ts'
import { sameOrigin } from './sameOrigin.ts'

const OWN = 'https://gateway.test'
const SESSIONS = { origin: OWN, cookie: 'sid', csrfToken: (token: string) => `of ${token}` }
/** The token that a page of this server sends beside the origin. */
const OWN_PAGE = { Cookie: 'sid=s1', 'X-CSRF-Token': 'of s1' }

test.each<[string, Record<string, string>, 'cross_site_request' | null]>([
  ['the own origin', { Origin: OWN }, null],
  ['another origin', { Origin: 'https://evil.test' }, 'cross_site_request'],
  ['a subdomain', { Origin: 'https://app.gateway.test' }, 'cross_site_request'],
  ['an origin that begins alike', { Origin: `${OWN}.evil.test` }, 'cross_site_request'],
  ['plain http', { Origin: 'http://gateway.test' }, 'cross_site_request'],
  ['another port', { Origin: `${OWN}:8443` }, 'cross_site_request'],
  ['a hidden origin', { Origin: 'null' }, 'cross_site_request'],
  ['an empty one', { Origin: '' }, 'cross_site_request'],
  ['two', { Origin: `${OWN}, https://evil.test` }, 'cross_site_request'],
  ['none, and the browser says the same', { 'Sec-Fetch-Site': 'same-origin' }, null],
  ['none, and the browser says a subdomain', { 'Sec-Fetch-Site': 'same-site' }, 'cross_site_request'],
  ['none, and the browser says another site', { 'Sec-Fetch-Site': 'cross-site' }, 'cross_site_request'],
  ['none, and the browser says nobody', { 'Sec-Fetch-Site': 'none' }, 'cross_site_request'],
  [
    'another, whatever the browser says',
    { Origin: 'https://evil.test', 'Sec-Fetch-Site': 'same-origin' },
    'cross_site_request',
  ],
  ['nothing', {}, 'cross_site_request'],
])('a session with %s: %p', async (_name, headers, code) => {
  const exchange = exchangeOf(
    '/v1/things',
    { method: 'POST', headers: { ...OWN_PAGE, ...headers } },
    { principal: TEST_SESSION },
  )
  expect((await sameOrigin(SESSIONS)(exchange))?.code ?? null).toBe(code)
})

test('a key needs no origin', async () => {
  const headers = { Origin: 'https://evil.test' }
  const exchange = exchangeOf('/v1/things', { method: 'POST', headers }, { principal: TEST_KEY })
  expect(await sameOrigin(SESSIONS)(exchange)).toBeNull()
})

test.each<[string, Record<string, string>]>([
  ['no token', { Cookie: 'sid=s1' }],
  ["another session's token", { Cookie: 'sid=s1', 'X-CSRF-Token': 'of s2' }],
  ['an empty token', { Cookie: 'sid=s1', 'X-CSRF-Token': '' }],
])('a session of the own origin with %s is refused', async (_name, headers) => {
  const init = { method: 'POST', headers: { Origin: OWN, ...headers } }
  const exchange = exchangeOf('/v1/things', init, { principal: TEST_SESSION })
  expect((await sameOrigin(SESSIONS)(exchange))?.code).toBe('cross_site_request')
})
