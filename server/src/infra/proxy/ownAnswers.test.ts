/** Our own answers on a port whose requests are handed on: refusals, and those in place of an app that gives none. */

import { afterEach, beforeEach, expect, test } from 'bun:test'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { TurnedClock } from '../../../test/clock.ts'
import { openProxyServer, type ProxyDecision, type ProxyServer } from './server.ts'

let app: Server
let proxy: ProxyServer
let decision: ProxyDecision

beforeEach(async () => {
  // Takes connections, and never answers.
  app = createServer((socket) => socket.destroy())
  await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve))
  proxy = await openProxyServer({
    ...{ host: '127.0.0.1', port: 0, clock: new TurnedClock(), callerOf: (address) => address },
    decide: async () => decision,
    requestIdOf: (header) => header ?? 'made',
  })
})
afterEach(() => {
  proxy.close()
  app.close()
})

const refuse = (status: number): ProxyDecision => ({ kind: 'refuse', status, headers: {}, text: 'no' })

const noAnswer = (): ProxyDecision => ({
  ...{ kind: 'forward', isSecure: false, isOwnCookie: () => false, onOpened: () => {}, onClosed: () => {} },
  target: { host: '127.0.0.1', port: (app.address() as AddressInfo).port, isTls: false, pathPrefix: '' },
})

/** Returns the whole answer to a request with these lines, a character for each byte. */
function answerTo(lines: readonly string[]): Promise<string> {
  const socket = connect(proxy.port, '127.0.0.1')
  let text = ''
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1')
  })
  socket.on('error', () => {})
  socket.write(`GET / HTTP/1.1\r\nHost: a.test\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`, 'latin1')
  return new Promise((resolve) => socket.on('close', () => resolve(text)))
}

const WEBSOCKET = ['Upgrade: websocket', 'Connection: Upgrade']
const PLAIN = ['Connection: close']

test.each<[string, readonly string[], () => ProxyDecision, string]>([
  ['a refusal', PLAIN, () => refuse(401), '401 Unauthorized'],
  ['a refused WebSocket', WEBSOCKET, () => refuse(403), '403 Forbidden'],
  ['no answer', PLAIN, noAnswer, '502 Bad Gateway'],
  ['no answer to a WebSocket', WEBSOCKET, noAnswer, '502 Bad Gateway'],
])('%s has the id of its request, and words for its status', async (_what, lines, decide, status) => {
  decision = decide()
  const made = await answerTo(lines)
  expect(made).toStartWith(`HTTP/1.1 ${status}\r\n`)
  expect(made.toLowerCase()).toContain('\r\nx-request-id: made\r\n')
  const given = await answerTo([...lines, 'X-Request-Id: mine-1'])
  expect(given.toLowerCase()).toContain('\r\nx-request-id: mine-1\r\n')
})
