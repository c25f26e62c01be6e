/** A port whose requests are handed on, over real connections, to servers that misbehave too. */

import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type Server } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net'
import { TurnedClock } from '../../../test/clock.ts'
import type { ProxyTarget } from './forward.ts'
import { openProxyServer, type ProxyDecision, type ProxyServer } from './server.ts'

let clock: TurnedClock
let app: Server
let proxy: ProxyServer
let target: ProxyTarget
let closed: number
let decision: (() => ProxyDecision) | null
let seen: IncomingMessage[]

beforeEach(async () => {
  clock = new TurnedClock()
  closed = 0
  decision = null
  seen = []
  app = createServer((asked, answer) => {
    seen.push(asked)
    if (asked.url === '/echo') asked.pipe(answer)
    else if (asked.url === '/cut')
      answer.writeHead(200, { 'Content-Length': '100' }).write('part', () => answer.destroy())
    else if (asked.url === '/hang') answer.write('begun')
    else if (asked.url === '/away') answer.writeHead(302, { Location: 'http://elsewhere.test/' }).end()
    else answer.end(asked.url)
  })
  app.on('upgrade', (_asked, socket: Socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello ')
    socket.on('data', (bytes) => socket.write(bytes))
  })
  app.listen(0, '127.0.0.1')
  await once(app, 'listening')
  target = { host: '127.0.0.1', port: (app.address() as AddressInfo).port, isTls: false, pathPrefix: '' }
  proxy = await openProxyServer({
    ...{ host: '127.0.0.1', port: 0, clock, callerOf: (address) => address, requestIdOf: () => 'r1' },
    decide: async () =>
      decision?.() ?? {
        ...{ kind: 'forward', target, isSecure: false, isOwnCookie: () => false, onOpened: () => {} },
        onClosed: () => {
          closed += 1
        },
      },
  })
})
afterEach(() => {
  proxy.close()
  app.closeAllConnections()
  app.close()
})

async function ask(path: string, method = 'GET', body?: string) {
  const asked = request({
    host: '127.0.0.1',
    port: proxy.port,
    path,
    method,
    headers: { host: 'a.test' },
    agent: false,
  })
  asked.end(body)
  const [got] = (await once(asked, 'response')) as [IncomingMessage]
  let text = ''
  let isCut = false
  got.on('aborted', () => {
    isCut = true
  })
  got.on('error', () => {})
  got.on('data', (bytes) => {
    text += bytes
  })
  await new Promise((resolve) => got.on('close', resolve))
  return { status: got.statusCode, headers: got.headers, text, isCut }
}

/** A connection on which a test writes itself. */
function line(): { socket: Socket; until: (words: string) => Promise<string>; ended: Promise<unknown> } {
  const socket = connect(proxy.port, '127.0.0.1')
  let text = ''
  const heard: (() => void)[] = []
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1')
    for (const hear of heard.splice(0)) hear()
  })
  socket.on('error', () => {})
  return {
    socket,
    ended: once(socket, 'close'),
    async until(words) {
      while (!text.includes(words)) await new Promise<void>((resolve) => heard.push(resolve))
      return text
    },
  }
}

test('a request and its answer are handed on whole, and nothing is left of it', async () => {
  expect(await ask('/a?b=c')).toMatchObject({ status: 200, text: '/a?b=c' })
  expect(await ask('/echo', 'POST', 'x'.repeat(300_000))).toMatchObject({ text: 'x'.repeat(300_000), isCut: false })
  expect(await ask('/away')).toMatchObject({ status: 302, headers: { location: 'http://elsewhere.test/' } })
  expect(await ask('/a', 'HEAD')).toMatchObject({ status: 200, text: '' })
  expect(closed).toBe(4)
})

test('bodies go both ways as they come', async () => {
  const { socket, until } = line()
  socket.write('POST /echo HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n')
  await until('first')
  socket.write('6\r\nsecond\r\n')
  await until('second')
  socket.write('0\r\n\r\n')
  await until('0\r\n\r\n')
  socket.destroy()
})

describe('a body is never what follows a request:', () => {
  const INSIDE = 'POST /inside HTTP/1.1\r\nHost: other.test\r\nContent-Length: 0\r\n\r\n'
  const chunk = `${INSIDE.length.toString(16)}\r\n${INSIDE}\r\n0\r\n\r\n`
  const chunked = 'Transfer-Encoding: chunked'

  test.each(
    ['GET', 'DELETE', 'OPTIONS', 'HEAD', 'PROPFIND'].flatMap((method) => [
      [method, chunked, chunk],
      [method, `Content-Length: ${INSIDE.length}\r\nConnection: content-length`, INSIDE],
      [method, `${chunked}\r\nConnection: transfer-encoding`, chunk],
    ]),
  )('%s with %s', async (method, framing, body) => {
    let text = ''
    const raw = createTcpServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', (bytes) => {
        text += bytes
        if (text.includes(INSIDE)) socket.end('HTTP/1.1 204 X\r\n\r\n')
      })
    }).listen(0, '127.0.0.1')
    await once(raw, 'listening')
    target = { host: '127.0.0.1', port: (raw.address() as AddressInfo).port, isTls: false, pathPrefix: '' }
    const { socket, until } = line()
    socket.write(`${method} /outside HTTP/1.1\r\nHost: a.test\r\n${framing}\r\n\r\n${body}`)
    await until('\r\n\r\n')
    socket.destroy()
    raw.close()
    const [head = '', ...rest] = text.split('\r\n\r\n')
    const isCounted = head.toLowerCase().includes(`\r\ncontent-length: ${INSIDE.length}`)
    const isChunked =
      /\r\ntransfer-encoding: chunked/i.test(head) && rest[0]?.startsWith(`${INSIDE.length.toString(16)}\r\n`)
    expect([isCounted, isChunked]).toEqual(framing.startsWith(chunked) ? [false, true] : [true, false])
  })

  test.each([`Content-Length: ${INSIDE.length}`, chunked])('a WebSocket with %s', async (framing) => {
    const { socket, until } = line()
    const head = `GET /ws HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n${framing}\r\n\r\n`
    socket.write(`${head}${framing === chunked ? chunk : INSIDE}`)
    expect(await until('\r\n\r\n')).toStartWith('HTTP/1.1 400 ')
    socket.destroy()
    expect(seen).toEqual([])
  })
})

test('the bytes of a WebSocket go both ways, those that came with its head too', async () => {
  const { socket, until } = line()
  const head = 'GET /ws HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
  socket.write(head)
  expect(await until('hello ')).toStartWith('HTTP/1.1 101 ')
  socket.write('there')
  await until('hello there')
  expect(closed).toBe(0)
  socket.destroy()
  while (closed === 0) await new Promise((resolve) => setImmediate(resolve))
})

test('an app that is not there is a 502 in our words, for WebSockets too', async () => {
  target = { socketPath: '/nonexistent.sock' }
  expect(await ask('/')).toMatchObject({ status: 502, text: 'The app does not answer.\n' })
  const { socket, until } = line()
  socket.write('GET /ws HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
  await until('The app does not answer.')
  while (closed < 2) await new Promise((resolve) => setImmediate(resolve))
})

test('an app that breaks off breaks the answer off', async () => {
  expect(await ask('/cut')).toMatchObject({ status: 200, text: 'part', isCut: true })
})

test('a caller that leaves ends its request at the app', async () => {
  const { socket, until } = line()
  socket.write('GET /hang HTTP/1.1\r\nHost: a.test\r\n\r\n')
  await until('begun')
  socket.destroy()
  while (closed === 0) await new Promise((resolve) => setImmediate(resolve))
  while (!seen[0]?.socket.destroyed) await new Promise((resolve) => setImmediate(resolve))
})

describe('nothing reaches the app of', () => {
  test('a request that is refused, whatever it is', async () => {
    decision = () => ({ kind: 'refuse', status: 401, headers: { 'www-authenticate': 'Basic' }, text: 'no' })
    expect(await ask('/', 'POST', 'body')).toMatchObject({
      status: 401,
      text: 'no',
      headers: { 'www-authenticate': 'Basic' },
    })
    const { socket, until, ended } = line()
    socket.write('GET /ws HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
    expect(await until('\r\n\r\nno')).toStartWith('HTTP/1.1 401 ')
    await ended
    expect(seen).toEqual([])
  })

  test.each([
    ['a URL in place of a path', 'GET http://other.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n'],
    [
      'two framings',
      'POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['no HTTP', 'HELO there\r\n\r\n'],
  ])('%s', async (_what, bytes) => {
    const { socket, until } = line()
    socket.write(bytes)
    expect(await until('\r\n\r\n')).toStartWith('HTTP/1.1 400 ')
    socket.destroy()
    expect(seen).toEqual([])
  })
})

describe('beneath the path of an app', () => {
  beforeEach(() => {
    target = { ...(target as Extract<ProxyTarget, { host: string }>), pathPrefix: '/tenants/mine' }
  })

  test.each([
    '/../theirs/secret',
    '/..',
    '/a/../../theirs',
    '/./../theirs',
    '/%2e%2e/theirs/secret',
    '/%2E./theirs',
    '/%252e%252e/theirs',
    '/%25252e%25252e/theirs',
    '/%2%65%2e/theirs',
    '/..%2ftheirs',
    '/..%5ctheirs',
    '/..\\theirs',
    '/a\\..\\..\\theirs',
    '/..;x/theirs',
    '/..%3bx/theirs',
    '/..%00/theirs',
    '/.%09./theirs',
    '/a%3f/../../theirs',
    '/a#/../../theirs',
    '/../../metrics?a=b',
    '/%25252525252525252e%2e/theirs',
  ])('a path that could leave it is refused, and gives back what it took: %s', async (path) => {
    const bytes = `GET ${path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n`
    const { socket, until } = line()
    socket.write(bytes)
    expect(await until('\r\n\r\n')).toStartWith('HTTP/1.1 400 ')
    socket.destroy()
    const ws = line()
    ws.socket.write(bytes.replace('Connection: close', 'Upgrade: websocket\r\nConnection: Upgrade'))
    expect(await ws.until('\r\n\r\n')).toStartWith('HTTP/1.1 400 ')
    await ws.ended
    expect([seen, closed]).toEqual([[], 2])
  })

  test.each(['/', '/x', '//x', '/a..b/...', '/.well-known/x', '/100%25', '/a%2520b', '/?next=/../x', '/%zz', '/%ff%2'])(
    'another path is handed on as it came: %s',
    async (path) => {
      expect(await ask(path)).toMatchObject({ status: 200, text: `/tenants/mine${path}` })
    },
  )
})

test('an app without a path of its own gets every path as it came', async () => {
  expect(await ask('/a/../b')).toMatchObject({ status: 200, text: '/a/../b' })
})

describe('nothing that an app says ends this process, or goes out as another answer:', () => {
  test.each([
    ['a status that is none', 'HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n'],
    ['a status of two digits', 'HTTP/1.1 42 X\r\nContent-Length: 0\r\n\r\n'],
    ['another protocol that nobody asked for', 'HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'],
    ['bytes above ASCII in a header', 'HTTP/1.1 200 OK\r\nX-A: \xe9\xff\r\nContent-Length: 0\r\n\r\n'],
    ['a control character in a header', 'HTTP/1.1 200 OK\r\nX-A: a\x01b\r\nContent-Length: 0\r\n\r\n'],
    ['a header without a name', 'HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 0\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello'],
    ['two framings', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['a head without end', `HTTP/1.1 200 OK\r\nX-A: ${'a'.repeat(300_000)}`],
    ['no HTTP', 'hello there\r\n\r\n'],
    ['nothing', ''],
  ])('%s', async (_what, bytes) => {
    const odd = createTcpServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => socket.end(bytes, 'latin1'))
    }).listen(0, '127.0.0.1')
    await once(odd, 'listening')
    target = { host: '127.0.0.1', port: (odd.address() as AddressInfo).port, isTls: false, pathPrefix: '' }
    const { socket, ended } = line()
    socket.write('GET /a HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n')
    await ended
    while (closed === 0) await new Promise((resolve) => setImmediate(resolve))
    target = { host: '127.0.0.1', port: (app.address() as AddressInfo).port, isTls: false, pathPrefix: '' }
    expect(await ask('/still')).toMatchObject({ status: 200, text: '/still' })
    odd.close()
  })

  test.each([
    ['a path with bytes above ASCII', 'GET /\xe9\xff?\xc3\xa9 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n'],
    [
      'a header with bytes above ASCII',
      'GET /a HTTP/1.1\r\nHost: a.test\r\nX-A: \xe9\xff\r\nConnection: close\r\n\r\n',
    ],
    ['a host with bytes above ASCII', 'GET /a HTTP/1.1\r\nHost: a\xff.test\r\nConnection: close\r\n\r\n'],
    [
      'an upgrade with a body',
      'GET /ws HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 3\r\n\r\nabc',
    ],
    ['an odd method', 'PROPFIND /a HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n'],
  ])('nor that a caller says: %s', async (_what, bytes) => {
    const { socket } = line()
    socket.end(bytes, 'latin1')
    await once(socket, 'close')
    expect(await ask('/still')).toMatchObject({ status: 200, text: '/still' })
  })
})

test('a connection that sends no request, and one on which nothing goes for 10 minutes, are closed', async () => {
  const [silent, idle] = [line(), line()]
  silent.socket.write('GET / HT')
  idle.socket.write('GET /hang HTTP/1.1\r\nHost: a.test\r\n\r\n')
  await idle.until('begun')
  while (proxy.connections < 2) await new Promise((resolve) => setImmediate(resolve))
  await clock.turn(15_000)
  await silent.ended
  await clock.turn(584_000)
  expect(proxy.connections).toBe(1)
  await clock.turn(1_000)
  await idle.ended
  expect(clock.pending).toBe(0)
})

test.each([
  ['a body', 'POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 99999999\r\n\r\n', ''],
  [
    'a WebSocket',
    'GET /ws HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n',
  ],
])(
  'a caller that has left behind an app that does not read is forgotten long before 10 minutes: %s',
  async (_, head, first) => {
    const deaf = createTcpServer({ pauseOnConnect: true }, (socket) => {
      socket.on('error', () => {})
      socket.write(first)
    }).listen(0, '127.0.0.1')
    await once(deaf, 'listening')
    target = { host: '127.0.0.1', port: (deaf.address() as AddressInfo).port, isTls: false, pathPrefix: '' }
    const socket = connect(proxy.port, '127.0.0.1').on('error', () => {})
    socket.write(head)
    socket.end(Buffer.alloc(50_000_000))
    while (proxy.connections === 0) await new Promise((resolve) => setImmediate(resolve))
    let turnedMs = 0
    while (proxy.connections > 0 && turnedMs < 590_000) {
      // Bytes that can move do.
      for (let turns = 0; turns < 200; turns += 1) await new Promise((resolve) => setImmediate(resolve))
      await clock.turn(10_000)
      turnedMs += 10_000
    }
    expect(turnedMs).toBeLessThan(300_000)
    while (closed === 0) await new Promise((resolve) => setImmediate(resolve))
    socket.destroy()
    deaf.close()
  },
)

test('silent connections of an address do not keep another request of it out', async () => {
  const silent = Array.from({ length: 300 }, () => connect(proxy.port, '127.0.0.1').on('error', () => {}))
  await Promise.all(silent.map((socket) => once(socket, 'connect')))
  expect(await ask('/a')).toMatchObject({ status: 200 })
  expect(proxy.connections).toBeLessThanOrEqual(256)
  for (const socket of silent) socket.destroy()
})

test('it opens no port that another has', async () => {
  const other = createTcpServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  const opening = openProxyServer({
    ...{ host: '127.0.0.1', port, clock, callerOf: () => null, requestIdOf: () => 'r1' },
    decide: async () => decision?.() as ProxyDecision,
  })
  await expect(opening).rejects.toThrow()
  other.close()
})
