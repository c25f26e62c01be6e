import { afterEach, expect, test } from 'bun:test'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { TurnedClock } from '../../../test/clock.ts'
import { type RawServer, rawServer } from '../../../test/rawServer.ts'
import { createHttp } from './client.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
/** More than the kernel keeps for a server that does not read. */
const LARGE_CHARACTERS = 64 << 20

const running: RawServer[] = []
let deaf: Server | null = null
afterEach(() => {
  for (const server of running.splice(0)) server.stop()
  deaf?.close()
  deaf = null
})

async function serve(answer: (socket: Socket, index: number) => void): Promise<RawServer> {
  const server = await rawServer(answer)
  running.push(server)
  return server
}

/** Takes one connection and reads nothing from it until told. */
async function serveUnread(): Promise<{ readonly url: string; readonly connected: Promise<Socket> }> {
  const { promise: connected, resolve } = Promise.withResolvers<Socket>()
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    socket.on('error', () => {})
    resolve(socket)
  })
  deaf = server
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, connected }
}

const http = createHttp(new TurnedClock())

/** Sends a call and notes how often it was told that the request has been written. */
function post(url: string, body = '{}') {
  const seen = { writtenCount: 0 }
  const leaving = new AbortController()
  const onWritten = () => {
    seen.writtenCount += 1
  }
  const request = { headers: {}, body, signal: leaving.signal, maxBytes: 1_000, connectMs: 5_000, onWritten }
  const answered = http.post(url, request)
  answered.catch(() => {})
  return { seen, answered, leave: () => leaving.abort('left') }
}

/** So many turns of the event loop that whatever can be written now has been. */
async function someTurns(): Promise<void> {
  for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

test('a request is told as written once, before its answer', async () => {
  let writtenBeforeAnswer = -1
  const server = await serve((socket) => {
    writtenBeforeAnswer = call.seen.writtenCount
    socket.write(OK)
  })
  const call = post(server.url)
  expect(call.seen.writtenCount).toBe(0)
  expect((await call.answered).status).toBe(200)
  expect([writtenBeforeAnswer, call.seen.writtenCount]).toEqual([1, 1])
})

test('a large request to a server that does not read is told as written when its last byte is out, not before', async () => {
  const server = await serveUnread()
  const call = post(server.url, 'x'.repeat(LARGE_CHARACTERS))
  const socket = await server.connected
  await someTurns()
  expect(call.seen.writtenCount).toBe(0)
  let readBytes = 0
  await new Promise<void>((resolve) => {
    socket.on('data', (bytes) => {
      readBytes += bytes.length
      if (readBytes > LARGE_CHARACTERS) resolve()
    })
    socket.resume()
  })
  socket.write(OK)
  expect((await call.answered).status).toBe(200)
  expect(call.seen.writtenCount).toBe(1)
})

test('a caller who leaves before the last byte is out is not told that the request was written', async () => {
  const server = await serveUnread()
  const call = post(server.url, 'x'.repeat(LARGE_CHARACTERS))
  await server.connected
  await someTurns()
  call.leave()
  expect(await call.answered.catch(String)).toBe('left')
  expect(call.seen.writtenCount).toBe(0)
})

test('a caller who leaves while it waits for the answer has been told', async () => {
  const server = await serve(() => {})
  const call = post(server.url)
  await server.requested(1)
  call.leave()
  expect(await call.answered.catch(String)).toBe('left')
  expect(call.seen.writtenCount).toBe(1)
})

test('nothing is told as written where no connection comes about', async () => {
  const server = await serve(() => {})
  server.stop()
  const refused = post(server.url)
  expect(String(await refused.answered.catch(String))).toContain('ECONNREFUSED')
  expect(refused.seen.writtenCount).toBe(0)
})
