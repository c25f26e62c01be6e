/** Requests that two servers could read in two ways: the apps' servers may read other lines than this one. */

import { afterEach, beforeEach, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { talk } from '../../../test/rawClient.ts'
import { END_OF_BODY, head, type RawServer, rawServer } from '../../../test/rawServer.ts'
import { openProxyServer, type ProxyServer } from './server.ts'

const LENGTH = 'Content-Length: 2\r\n'
const HOST = 'Host: a.test\r\n'
const CLOSE = 'Connection: close\r\n'
const WEBSOCKET = 'Connection: Upgrade\r\nUpgrade: websocket\r\n'
const ONLY_ONE = 'Send the headers Host and Content-Length once each.\n'

let app: RawServer
let proxy: ProxyServer
let decided: number
beforeEach(async () => {
  decided = 0
  app = await rawServer((socket) => void socket.end(`${head()}${END_OF_BODY}`))
  const target = { host: '127.0.0.1', port: Number(new URL(app.url).port), isTls: false, pathPrefix: '' }
  proxy = await openProxyServer({
    ...{
      host: '127.0.0.1',
      port: 0,
      clock: new TurnedClock(),
      callerOf: (address) => address,
      requestIdOf: () => 'r1',
    },
    decide: async () => {
      decided += 1
      const callbacks = { isOwnCookie: () => false, onOpened: () => {}, onClosed: () => {} }
      return { kind: 'forward', target, isSecure: false, ...callbacks }
    },
  })
})
afterEach(() => {
  proxy.close()
  app.stop()
})

const ask = (method: string, headers: string, body = '') =>
  talk(`http://127.0.0.1:${proxy.port}`, `${method} /a HTTP/1.1\r\n${headers}\r\n${body}`)

test.each([
  ['the same length twice', `${HOST}${LENGTH}${LENGTH}`, 'ab'],
  ['the same length twice, apart and in another case', `${HOST}${LENGTH}X-A: b\r\n${LENGTH.toUpperCase()}`, 'ab'],
  ['a length of 0 twice', `${HOST}${'Content-Length: 0\r\n'.repeat(2)}`, ''],
  ['two hosts', `${HOST}Host: b.test\r\n${LENGTH}`, 'ab'],
  ['the same host twice', `${HOST}${LENGTH}${HOST.toUpperCase()}`, 'ab'],
  ['a host and an empty one', `${HOST}Host:\r\n${LENGTH}`, 'ab'],
])('is refused with 400, and nothing of it reaches an app: %s', async (_what, headers, body) => {
  expectRefused(await ask('POST', `${CLOSE}${headers}`, body))
})

test.each([
  ['two hosts', `${HOST}Host: b.test\r\n`],
  ['a length of 0 twice', `${HOST}${'Content-Length: 0\r\n'.repeat(2)}`],
])('so is a WebSocket: %s', async (_what, headers) => {
  expectRefused(await ask('GET', `${WEBSOCKET}${headers}`))
})

test.each([
  ['gzip before chunks', 'Transfer-Encoding: gzip, chunked\r\n'],
  ['chunks twice', 'Transfer-Encoding: chunked, chunked\r\n'],
  ['two lines', 'Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n'],
  ['the same line twice', 'Transfer-Encoding: chunked\r\n'.repeat(2)],
])('a body that is coded in another way than in chunks reaches no app: %s', async (_what, coding) => {
  const said = await ask('POST', `${CLOSE}${HOST}${coding}`, '2\r\nab\r\n0\r\n\r\n')
  expect(said).toStartWith('HTTP/1.1 400 ')
  expect([app.requests, decided]).toEqual([[], 0])
})

function expectRefused(said: string): void {
  expect(said).toStartWith('HTTP/1.1 400 ')
  expect(said).toContain(ONLY_ONE)
  expect([app.requests, decided]).toEqual([[], 0])
}

test('one host and one length are handed on as one line each', async () => {
  expect(await ask('POST', `${CLOSE}${HOST}${LENGTH}X-A: b\r\nX-A: c\r\n`, 'ab')).toStartWith('HTTP/1.1 200 ')
  const [seen = ''] = app.requests
  expect([seen.match(/^content-length: 2\r$/gim)?.length, seen.match(/^host: a\.test\r$/gim)?.length]).toEqual([1, 1])
})
