/** Answers that go before an answer (1xx): few are passed over, and an endless number of them is no answer. */

import { afterEach, beforeEach, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { type RawServer, rawServer } from '../../../test/rawServer.ts'
import { openProxyServer, type ProxyServer } from './server.ts'

const HINT = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

let hints: number
let app: RawServer
let proxy: ProxyServer
beforeEach(async () => {
  app = await rawServer((socket) => socket.write(HINT.repeat(hints), () => socket.write(ANSWER)))
  const port = Number(new URL(app.url).port)
  proxy = await openProxyServer({
    ...{
      host: '127.0.0.1',
      port: 0,
      clock: new TurnedClock(),
      callerOf: (address) => address,
      requestIdOf: () => 'r1',
    },
    decide: async () => ({
      kind: 'forward',
      target: { host: '127.0.0.1', port, isTls: false, pathPrefix: '' },
      ...{ isSecure: false, isOwnCookie: () => false, onOpened: () => {}, onClosed: () => {} },
    }),
  })
})
afterEach(() => {
  proxy.close()
  app.stop()
})

const ask = (headers = {}) => fetch(`http://127.0.0.1:${proxy.port}/`, { headers })

test('sixteen are passed over', async () => {
  hints = 16
  expect(await (await ask()).text()).toBe('ok')
})

test.each([{}, { Connection: 'Upgrade', Upgrade: 'websocket' }])(
  'more end the request at the app, and are a 502 (%j)',
  async (headers) => {
    hints = 17
    expect((await ask(headers)).status).toBe(502)
    await app.closed(1)
  },
)
