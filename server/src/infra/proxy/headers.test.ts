/** The headers that a proxy hands on, and those that come back. */

import { expect, test } from 'bun:test'
import { handedOnHeaders, hasOtherCoding, returnedHeaders } from './headers.ts'

const SAID = { host: 'a.apps.test', isSecure: true, isOwnCookie: (name: string) => name.startsWith('own_') }
const FORWARDED = { host: 'a.apps.test', 'x-forwarded-host': 'a.apps.test', 'x-forwarded-proto': 'https' }

test.each<[string, string[], object]>([
  [
    'what belongs to one connection',
    ['Connection', 'X-Hop, keep-alive', 'X-Hop', '1', 'Keep-Alive', '5', 'TE', 'trailers'],
    {},
  ],
  ['another protocol', ['Upgrade', 'h2c', 'Expect', '100-continue'], {}],
  [
    'what the caller shows us',
    ['Authorization', 'Basic eA==', 'Proxy-Authorization', 'Basic eA==', 'X-CSRF-Token', 't'],
    {},
  ],
  [
    'what others say of the caller',
    ['X-Forwarded-For', '1.2.3.4', 'Forwarded', 'for=1', 'X-Real-IP', '1', 'Host', 'evil'],
    {},
  ],
  ['our cookies', ['Cookie', 'own_session=1; a=b; own_x=2', 'cookie', 'c=d;own_y=1'], { cookie: 'a=b; c=d' }],
  ['the cookie header where all are ours', ['Cookie', 'own_session=1'], {}],
])('a request is handed on without %s', (_what, raw, kept) => {
  expect({ ...handedOnHeaders([...raw, 'X-Kept', '1', 'x-kept', '2'], SAID) }).toEqual({
    ...kept,
    'x-kept': ['1', '2'],
    ...FORWARDED,
  })
})

test.each([
  ['a length', ['Content-Length', '5'], { 'content-length': '5' }],
  [
    'a length that is named as of one connection',
    ['Connection', 'close, Content-Length', 'Content-Length', '5'],
    { 'content-length': '5' },
  ],
  ['chunks', ['Transfer-Encoding', 'Chunked'], { 'transfer-encoding': 'chunked' }],
])('a body keeps a framing: %s', (_what, raw, framing) => {
  expect({ ...handedOnHeaders(raw, SAID) }).toEqual({ ...FORWARDED, ...framing })
})

test.each([
  ['none', ['Content-Length', '5'], false],
  ['chunks, in any case', ['transfer-encoding', ' Chunked '], false],
  ['another one before chunks', ['Transfer-Encoding', 'gzip, chunked'], true],
  ['another one alone', ['Transfer-Encoding', 'identity'], true],
  ['two lines', ['Transfer-Encoding', 'chunked', 'transfer-encoding', 'chunked'], true],
  ['nothing', ['Transfer-Encoding', ''], true],
])('the coding of a body is another one than chunks: %s', (_what, raw, isOther) => {
  expect(hasOtherCoding(raw)).toBe(isOther)
})

test('a caller can not have a cookie or the host left out', () => {
  const raw = ['Connection', 'cookie, host, x-forwarded-host', 'Cookie', 'a=b', 'Host', 'a.apps.test']
  expect({ ...handedOnHeaders(raw, SAID) }).toEqual({ ...FORWARDED, cookie: 'a=b' })
})

test('a cookie comes back for its own host alone', () => {
  const raw = [
    'Set-Cookie',
    'a=1; Domain=apps.test; Path=/',
    'set-cookie',
    'b=domain; domain ; HttpOnly',
    'Connection',
    'close',
  ]
  expect({ ...returnedHeaders(raw, 200) }).toEqual({ 'set-cookie': ['a=1; Path=/', 'b=domain; HttpOnly'] })
})

test.each([
  [200, { 'content-length': '50' }],
  [101, {}],
  [204, {}],
  [304, { 'content-length': '50' }],
])('the length of a body comes back where there may be one: %i', (status, expected) => {
  expect({ ...returnedHeaders(['Content-Length', '50'], status) }).toEqual(expected)
})

test('no name of a header reaches into an object', () => {
  expect(Object.keys(handedOnHeaders(['__proto__', 'x', 'Constructor', 'y'], SAID))).toContain('constructor')
})
