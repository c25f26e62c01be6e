import { afterEach, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { TurnedClock } from '../../test/clock.ts'
import { END_OF_BODY, head, piece, type RawServer, rawServer } from '../../test/rawServer.ts'
import { createHttp, HttpBodyTooLarge, HttpFailure } from './http.ts'

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
  return http.post(url, { headers: { 'x-mine': '1' }, body: '{}', signal, maxBytes })
}

/** What a promise is rejected with. */
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
  expect([answer.status, answer.header('Content-Type')]).toEqual([200, 'text/event-stream'])
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

test('what is no HTTP, and headers without end, are failures', async () => {
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

test('a probe tells a listening port from a closed one', async () => {
  const server = await serve(() => {})
  expect(await http.canConnect(`${server.url}/v1`, 1_000)).toBe(true)
  server.stop()
  expect(await http.canConnect(`${server.url}/v1`, 1_000)).toBe(false)
  expect(await http.canConnect('http://nowhere.invalid/v1', 1_000)).toBe(false)
  expect(clock.pending).toBe(0)
})

test('a probe that gets no answer ends with its time', async () => {
  // Nothing here speaks TLS, so the handshake of https never ends.
  const server = await serve(() => {})
  const probing = http.canConnect(server.url.replace('http:', 'https:'), 1_000)
  await clock.turn(1_000)
  expect(await probing).toBe(false)
})
