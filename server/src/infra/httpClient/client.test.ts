import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { certificateFor } from '../../../test/certificate.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { END_OF_BODY, head, piece, type RawServer, rawServer } from '../../../test/rawServer.ts'
import { HttpBodyTooLarge, HttpFailure } from '../httpClient.ts'
import { createHttp } from './client.ts'

const running: RawServer[] = []
afterEach(() => {
  for (const server of running.splice(0)) server.stop()
})

async function serve(answer: (socket: Socket, index: number) => void): Promise<RawServer> {
  const server = await rawServer(answer)
  running.push(server)
  return server
}

const clock = new TurnedClock()
const http = createHttp(clock)

function post(url: string, signal = new AbortController().signal, maxBytes = 1_000) {
  return http.post(url, { headers: { 'x-mine': '1' }, body: '{}', signal, maxBytes, connectMs: 5_000 })
}

/** Returns the reason that a promise is rejected with. Throws if it is not. */
async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('it did not reject')
}

test('an answer is read as it comes, to its end', async () => {
  const server = await serve((socket) =>
    socket.write(Buffer.concat([Buffer.from(head()), piece('hi'), Buffer.from(END_OF_BODY)])),
  )
  const answer = await post(server.url)
  expect([answer.status, answer.header('content-type')]).toEqual([200, 'text/event-stream'])
  expect(new TextDecoder().decode((await answer.read()) ?? undefined)).toBe('hi')
  expect(await answer.read()).toBeNull()
})

test('a connection serves call after call', async () => {
  let connections = 0
  const seen = new Set<Socket>()
  const server = await serve((socket) => {
    if (!seen.has(socket)) connections += 1
    seen.add(socket)
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`)
  })
  for (let call = 0; call < 3; call += 1) {
    const answer = await post(server.url)
    while ((await answer.read()) !== null);
  }
  expect(connections).toBe(1)
})

test('a refused connection was not reached; one that breaks without an answer has an unknown outcome', async () => {
  const server = await serve((socket) => socket.resetAndDestroy())
  expect(await rejection(post(server.url))).toMatchObject({ outcomeUnknown: true, code: 'ECONNRESET' })
  server.stop()
  expect(await rejection(post(server.url))).toMatchObject({ outcomeUnknown: false, code: 'ECONNREFUSED' })
  expect(await rejection(post('http://nowhere.invalid/'))).toMatchObject({ outcomeUnknown: false })
})

test('bytes that are no HTTP, and headers without end, are failures', async () => {
  const junk = await serve((socket) => socket.end('220 mail ready\r\n\r\n'))
  expect(await rejection(post(junk.url))).toBeInstanceOf(HttpFailure)
  const endless = await serve((socket) => {
    socket.write('HTTP/1.1 200 OK\r\n')
    for (let line = 0; line < 5_000; line += 1) socket.write(`X-A: ${'a'.repeat(1_000)}\r\n`)
  })
  expect(await rejection(post(endless.url))).toBeInstanceOf(HttpFailure)
})

test('half a body is a failure, never an end', async () => {
  const server = await serve((socket) => socket.end(Buffer.concat([Buffer.from(head()), piece('half')])))
  const answer = await post(server.url)
  const reading = (async () => {
    while ((await answer.read()) !== null);
  })()
  expect(await rejection(reading)).toMatchObject({ outcomeUnknown: true, code: 'ECONNRESET' })
})

test('no redirect is followed', async () => {
  const server = await serve((socket) =>
    socket.write(`HTTP/1.1 307 Temporary\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n`),
  )
  expect((await post(server.url)).status).toBe(307)
  expect(server.requests).toHaveLength(1)
})

test('a compressed body stays as small as it came', async () => {
  const bomb = gzipSync(Buffer.alloc(50_000_000))
  const server = await serve((socket) => {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${bomb.length}\r\n\r\n`)
    socket.write(bomb)
  })
  const answer = await post(server.url, undefined, bomb.length)
  let bytes = 0
  for (let read = await answer.read(); read !== null; read = await answer.read()) bytes += read.byteLength
  expect(bytes).toBe(bomb.length)
})

test('a body over its bound is cut and its connection closed', async () => {
  const server = await serve((socket) => {
    socket.write(head())
    socket.write(piece('x'.repeat(600)))
    socket.write(piece('x'.repeat(600)))
  })
  const answer = await post(server.url)
  const reading = (async () => {
    while ((await answer.read()) !== null);
  })()
  expect(await rejection(reading)).toBeInstanceOf(HttpBodyTooLarge)
  await server.closed(1)
})

test('an abort before the headers rejects with its reason and closes the connection', async () => {
  const server = await serve(() => {})
  const controller = new AbortController()
  const calling = rejection(post(server.url, controller.signal))
  await server.requested(1)
  controller.abort('enough')
  expect(await calling).toBe('enough')
  await server.closed(1)
})

test('an abort in mid-body rejects the read that waits, closes the connection, and leaves no unhandled rejection', async () => {
  const unhandled: unknown[] = []
  const note = (reason: unknown) => unhandled.push(reason)
  process.on('unhandledRejection', note)
  const server = await serve((socket) => socket.write(Buffer.concat([Buffer.from(head()), piece('a')])))
  const controller = new AbortController()
  const answer = await post(server.url, controller.signal)
  await answer.read()
  const reading = rejection(answer.read())
  controller.abort('enough')
  expect(await reading).toBe('enough')
  answer.cancel()
  answer.cancel()
  await server.closed(1)
  expect(await rejection(answer.read())).toBe('enough')
  await new Promise((resolve) => setImmediate(resolve))
  process.off('unhandledRejection', note)
  expect(unhandled).toEqual([])
})

test('headers are the given ones and what HTTP needs', async () => {
  const server = await serve((socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'))
  await post(server.url)
  const names = [...(server.requests[0] ?? '').matchAll(/^([\w-]+):/gm)].map((match) => match[1]?.toLowerCase())
  expect(names).toContain('x-mine')
  expect(names).not.toContain('cookie')
  expect(names).not.toContain('authorization')
})

test('a header that could end its line is refused, and its value is not told', async () => {
  const headers = { authorization: 'Bearer a\r\nx-other: b' }
  const request = { headers, body: '', signal: new AbortController().signal, maxBytes: 1, connectMs: 5_000 }
  const error = await rejection(http.post('http://127.0.0.1:1/', request))
  expect(String(error)).toContain('the header authorization')
  expect(String(error)).not.toContain('Bearer')
})

test('a body of many megabytes and any characters arrives as it is', async () => {
  const body = JSON.stringify({ text: 'naïve 漢字 🙂 '.repeat(200_000) })
  const server = Bun.serve({
    port: 0,
    fetch: async (request) => new Response(Bun.hash(await request.text()).toString()),
  })
  const signal = new AbortController().signal
  const answer = await http.post(`http://localhost:${server.port}/`, {
    headers: {},
    body,
    signal,
    maxBytes: 100,
    connectMs: 5_000,
  })
  expect(new TextDecoder().decode((await answer.read()) ?? undefined)).toBe(Bun.hash(body).toString())
  await server.stop(true)
})

test('an answer that nobody reads is not taken into memory', async () => {
  let taken = 0
  let waits = () => {}
  const blocked = new Promise<void>((resolve) => {
    waits = resolve
  })
  const megabyte = piece('x'.repeat(1 << 20))
  const server = await serve((socket) => {
    socket.write(head())
    // The kernel's buffers take some; then writing waits for the reader.
    const write = () => {
      if (taken++ < 100) socket.write(megabyte, write)
      else socket.end(END_OF_BODY)
    }
    write()
    const look = (before: number) => setImmediate(() => (taken > 0 && taken === before ? waits() : look(taken)))
    look(-1)
  })
  const answer = await post(server.url, undefined, 200 << 20)
  await blocked
  expect(taken).toBeLessThan(60)
  let bytes = 0
  for (let read = await answer.read(); read !== null; read = await answer.read()) bytes += read.byteLength
  expect(bytes).toBe(100 << 20)
})

test('a host that takes no connection is not reached after its time', async () => {
  // Nothing here speaks TLS, so the handshake of https never ends.
  const server = await serve(() => {})
  const calling = rejection(post(server.url.replace('http:', 'https:')))
  await clock.turn(5_000)
  expect(await calling).toMatchObject({ code: 'ETIMEDOUT', outcomeUnknown: false })
  await server.closed(1)
  expect(clock.pending).toBe(0)
})

describe('connections that are kept', () => {
  const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n'

  /** Makes two calls `laterMs` apart, and returns how many connections the server saw. */
  async function connectionsOf(answer: string, laterMs: number): Promise<number> {
    const sockets = new Set<Socket>()
    const server = await serve((socket) => {
      sockets.add(socket)
      socket.write(answer)
    })
    for (const waitMs of [laterMs, 0]) {
      const got = await post(server.url)
      while ((await got.read()) !== null);
      await clock.turn(waitMs)
    }
    return sockets.size
  }

  test.each([
    ['are used again', `${OK}\r\nok`, 3_999, 1],
    ['are closed before servers close them', `${OK}\r\nok`, 4_000, 2],
    ['are closed before the moment that the server has named', `${OK}Keep-Alive: timeout=3\r\n\r\nok`, 2_000, 2],
    ['are closed where the server says so', `${OK}Connection: close\r\n\r\nok`, 0, 2],
    ['are closed after an answer of HTTP/1.0', `${OK.replace('1.1', '1.0')}\r\nok`, 0, 2],
    ['are closed after more than one answer', `${OK}\r\nok${OK}\r\nok`, 0, 2],
    [
      'are closed where chunks and a length are both announced',
      `${head('200 OK', 'a/b', 'Content-Length: 5\r\n')}0\r\n\r\n`,
      0,
      2,
    ],
  ])('%s', async (_name, answer, laterMs, connections) => {
    expect(await connectionsOf(answer, laterMs)).toBe(connections)
  })

  test('and are closed by the server meanwhile are not used', async () => {
    const server = await serve((socket, index) => {
      socket.write(`${OK}\r\nok`)
      if (index === 0) socket.end()
    })
    const first = await post(server.url)
    while ((await first.read()) !== null);
    await server.closed(1)
    expect((await post(server.url)).status).toBe(200)
  })

  test('carry another call once a released answer has ended, and are closed when it does not end', async () => {
    const sockets = new Set<Socket>()
    const server = await serve((socket) => {
      sockets.add(socket)
      socket.write(head())
      socket.write(piece('x'))
    })
    const first = await post(server.url)
    await first.read()
    first.release()
    expect(await first.read()).toBeNull()
    for (const socket of sockets) await new Promise((resolve) => socket.write(END_OF_BODY, resolve))
    while (clock.pending > 1) await new Promise((resolve) => setImmediate(resolve))
    const second = await post(server.url)
    expect(sockets.size).toBe(1)
    await second.read()
    second.release()
    await clock.turn(1_000)
    await server.closed(1)
  })
})

describe('https', () => {
  test('a server whose certificate nobody known has signed gets no byte of a call', async () => {
    const seen: string[] = []
    const secure = Bun.serve({ port: 0, tls: await certificateFor('localhost'), fetch: ({ url }) => count(seen, url) })
    const failure = await rejection(post(`https://localhost:${secure.port}/`))
    expect(failure).toMatchObject({ outcomeUnknown: false, code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
    expect(seen).toEqual([])
    await secure.stop(true)
  })

  test('neither does one that speaks no TLS', async () => {
    const server = await serve((socket) => socket.end('no TLS here\r\n\r\n'))
    const calling = rejection(post(server.url.replace('http:', 'https:')))
    await clock.turn(5_000)
    expect(await calling).toMatchObject({ outcomeUnknown: false })
    expect(server.requests).toEqual([])
  })

  test.each([
    ['localhost', '200'],
    ['elsewhere.test', 'ERR_TLS_CERT_ALTNAME_INVALID'],
  ])('a trusted certificate for %s, called as localhost', async (name, outcome) => {
    const tls = await certificateFor(name)
    const secure = Bun.serve({ port: 0, tls, fetch: () => new Response('ok') })
    const folder = await mkdtemp(join(tmpdir(), 'tollgate-tls-'))
    const root = join(folder, 'root.pem')
    await writeFile(root, tls.cert)
    const program = [
      process.execPath,
      join(import.meta.dir, '../../../test/trustingCall.ts'),
      `https://localhost:${secure.port}/`,
    ]
    const child = Bun.spawn(program, { env: { ...process.env, NODE_EXTRA_CA_CERTS: root } })
    expect(await new Response(child.stdout).text()).toBe(outcome)
    await Promise.all([secure.stop(true), rm(folder, { recursive: true })])
  })
})

function count(seen: string[], url: string): Response {
  seen.push(url)
  return new Response('ok')
}
