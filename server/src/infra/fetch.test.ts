import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { TurnedClock } from '../../test/clock.ts'
import { type RawServer, rawServer } from '../../test/rawServer.ts'
import { boundedFetch, systemFetch } from './fetch.ts'
import { HttpBodyTooLarge } from './httpClient.ts'

const BOUNDS = { wholeMs: 5_000, maxBytes: 1_000 }

let clock: TurnedClock
const servers: RawServer[] = []
beforeEach(() => {
  clock = new TurnedClock()
})
afterEach(() => {
  for (const far of servers.splice(0)) far.stop()
})

/** Starts the far end, and returns the function that asks it. */
async function askOf(answer: (socket: Socket) => void) {
  const far = await rawServer(answer)
  servers.push(far)
  const send = boundedFetch(systemFetch, clock, BOUNDS)
  return { far, ask: (init: RequestInit = {}) => send(`${far.url}/token`, init) }
}

/** A whole answer with its length. */
function whole(status: string, body: string | Uint8Array, ...headers: readonly string[]): Uint8Array {
  const lines = [`HTTP/1.1 ${status}`, `Content-Length: ${Buffer.byteLength(body)}`, ...headers, '', '']
  return Buffer.concat([Buffer.from(lines.join('\r\n')), Buffer.from(body)])
}

test('an answer within its bounds is whole when it resolves: status, headers and body', async () => {
  const { far, ask } = await askOf((socket) =>
    socket.write(whole('400 Bad Request', '{"error":"x"}', 'Content-Type: application/json', 'X-More: 1')),
  )
  const response = await ask({ method: 'POST', body: 'a=b', headers: { 'X-Sent': 'yes' } })
  expect([response.status, response.headers.get('X-More'), await response.json()]).toEqual([400, '1', { error: 'x' }])
  expect(far.requests[0]).toMatch(/^POST \/token .*x-sent: yes.*a=b$/is)
  expect(clock.pending).toBe(0)
})

test.each([
  ['text/html', '<p>{"a":1}</p>'],
  ['application/octet-stream', '\u0000\u0001{'],
  ['', '{"a":1}'],
])('an answer of the type %p is handed over as it came, with its type', async (type, body) => {
  const headers = type === '' ? [] : [`Content-Type: ${type}`]
  const { ask } = await askOf((socket) => socket.write(whole('200 OK', body, ...headers)))
  const response = await ask()
  expect([response.headers.get('Content-Type') ?? '', await response.text()]).toEqual([type, body])
})

test.each(['204 No Content', '304 Not Modified'])('an answer with status %s has no body', async (status) => {
  const { ask } = await askOf((socket) => socket.write(`HTTP/1.1 ${status}\r\n\r\n`))
  const response = await ask()
  expect([response.status, await response.text()]).toEqual([Number(status.slice(0, 3)), ''])
})

test.each([301, 302, 303, 307, 308])('a redirect with %d is the answer: nobody is asked there', async (status) => {
  const { far, ask } = await askOf((socket) =>
    socket.write(whole(`${status} Elsewhere`, '', `Location: http://${socket.localAddress}:${socket.localPort}/other`)),
  )
  const response = await ask({ headers: { Authorization: 'Bearer secret' } })
  expect(response.status).toBe(status)
  expect(response.headers.get('Location')).toEndWith('/other')
  expect(far.requests).toHaveLength(1)
})

test('a body of as many bytes as the bound is read, and one of a byte more refused', async () => {
  const { ask } = await askOf((socket) => socket.write(whole('200 OK', 'x'.repeat(1_000))))
  expect(await (await ask()).text()).toHaveLength(1_000)
  const { ask: askMore } = await askOf((socket) => socket.write(whole('200 OK', 'x'.repeat(1_001))))
  await expect(askMore()).rejects.toBeInstanceOf(HttpBodyTooLarge)
})

test('a body without an end is refused once it is over the bound, and its connection closed', async () => {
  const { far, ask } = await askOf((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    socket.write(`400\r\n${'x'.repeat(1_024)}\r\n`)
  })
  await expect(ask()).rejects.toBeInstanceOf(HttpBodyTooLarge)
  await far.closed(1)
  expect(clock.pending).toBe(0)
})

test('the bound counts decompressed bytes', async () => {
  const packed = gzipSync('x'.repeat(100_000))
  expect(packed.length).toBeLessThan(BOUNDS.maxBytes)
  const { ask } = await askOf((socket) => socket.write(whole('200 OK', packed, 'Content-Encoding: gzip')))
  await expect(ask()).rejects.toBeInstanceOf(HttpBodyTooLarge)
  const small = gzipSync('x'.repeat(900))
  const { ask: askSmall } = await askOf((socket) => socket.write(whole('200 OK', small, 'Content-Encoding: gzip')))
  expect(await (await askSmall()).text()).toBe('x'.repeat(900))
})

test.each([
  ['nothing', ''],
  ['only the head', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n'],
  ['half of the body', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345'],
])('an exchange of which %s came in time fails, and its connection is closed', async (_name, sent) => {
  const { far, ask } = await askOf((socket) => socket.write(sent))
  const outcome = ask().then(
    () => 'an answer',
    (error: unknown) => String(error),
  )
  await far.requested(1)
  await clock.turn(BOUNDS.wholeMs - 1)
  expect(clock.pending).toBe(1)
  await clock.turn(1)
  expect(await outcome).toContain('no whole answer within 5000 ms')
  await far.closed(1)
  expect(clock.pending).toBe(0)
})

test.each([
  ['is cut off', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345'],
  ['is no HTTP', 'SSH-2.0-OpenSSH\r\n\r\n'],
  ['is not compressed as it says', 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Encoding: gzip\r\n\r\nabcd'],
])('an answer that %s fails at once', async (_name, sent) => {
  const { ask } = await askOf((socket) => socket.end(sent))
  await expect(ask()).rejects.toThrow()
  expect(clock.pending).toBe(0)
})

test('a server that is not there fails at once', async () => {
  const { far, ask } = await askOf(() => {})
  far.stop()
  await expect(ask()).rejects.toThrow()
  expect(clock.pending).toBe(0)
})
