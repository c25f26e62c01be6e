/** Servers close connections that were used before: when they have said, and whenever else they like. No call suffers by it. */

import { afterEach, describe, expect, test } from 'bun:test'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { TurnedClock } from '../../../test/clock.ts'
import { type Seeded, seeded } from '../../../test/faults/seeded.ts'
import {
  type Break,
  type LlamaOptions,
  type LlamaServer,
  llamaAnswer,
  startLlamaServer,
} from '../../../test/llamaServer.ts'
import { rawServer } from '../../../test/rawServer.ts'
import { type Http, HttpFailure } from '../httpClient.ts'
import { createHttp } from './client.ts'

const CALLS = 3_000
const AT_ONCE = 24
const TOKENS = 4

const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})

const clock = new TurnedClock()
/** The clock is turned while connections are made: none of them is late by it. */
const connectMs = 3_600_000

async function llama(options: Omit<LlamaOptions, 'clock'>): Promise<LlamaServer> {
  const server = await startLlamaServer({ clock, ...options })
  stops.push(server.stop)
  return server
}

interface Way {
  readonly mayRepeat?: boolean
  readonly signal?: AbortSignal
  readonly onWritten?: () => void
}

const post = (http: Http, url: string, body: string, { signal = new AbortController().signal, ...way }: Way = {}) =>
  http.post(url, { headers: {}, body, signal, connectMs, maxBytes: 100_000, ...way })

/** Makes a call and reads its answer; returns what is wrong about it, or null. */
async function callLlama(http: Http, url: string, number: number, stream: boolean, way: Way): Promise<string | null> {
  const messages = [{ role: 'user', content: `call ${number}` }]
  try {
    const answer = await post(http, url, JSON.stringify({ stream, max_tokens: TOKENS, messages }), way)
    let text = ''
    for (let bytes = await answer.read(); bytes !== null; bytes = await answer.read()) text += Buffer.from(bytes)
    return text.includes(`"${llamaAnswer(`call ${number}`)}"`) ? null : `call ${number}: another answer`
  } catch (error) {
    return `call ${number}: ${error}`
  }
}

/**
 * Makes many calls, so many at once; returns what went wrong. The clock is turned between rounds of calls, to around the moments at
 * which idle connections are given up here and closed there. In the midst of a round that would close them under requests that
 * the server has not read yet.
 */
async function callMany(server: LlamaServer, atOnce: number, random: Seeded, way: Way): Promise<readonly string[]> {
  const http = createHttp(clock)
  const problems: string[] = []
  let number = 0
  const callUntil = async (end: number) => {
    while (number < end) {
      number += 1
      const problem = await callLlama(http, `${server.url}/chat/completions`, number, random.percent(50), way)
      if (problem !== null) problems.push(problem)
    }
  }
  while (number < CALLS) {
    const end = Math.min(number + random.between(1, 100), CALLS)
    await Promise.all(Array.from({ length: atOnce }, () => callUntil(end)))
    await clock.turn(random.between(0, 6_000))
  }
  http.close()
  return problems
}

describe.each([
  ['one after the other', 1],
  [`${AT_ONCE} at once`, AT_ONCE],
])('%s, thousands of calls', (_name, atOnce) => {
  test('meet no end of a connection where the server keeps to what it has said, also those that must not be repeated', async () => {
    for (const countsDown of [false, true]) {
      const server = await llama({ requestsMost: 8, countsDown, closesAfterStream: false })
      expect(await callMany(server, atOnce, seeded(1), {})).toEqual([])
      expect(server.brokenCount).toBe(0)
      expect(server.carried.length).toBeLessThan(CALLS / 2)
    }
  })

  test('all get their answers where the server closes under requests and after streams', async () => {
    const random = seeded(2)
    const breaks = () => (random.percent(10) ? random.pick<Break>(['reset', 'end']) : null)
    const server = await llama({ breaks })
    expect(await callMany(server, atOnce, random, { mayRepeat: true })).toEqual([])
    expect(server.brokenCount).toBeGreaterThan(CALLS / 100)
  })
})

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** A server of which every connection has a script, a step for each of its requests; the last step goes on. */
async function scripted(...scripts: readonly (readonly ((socket: Socket) => unknown)[])[]) {
  const requests: string[] = []
  const connections: Socket[] = []
  const server = createServer((socket) => {
    const script = scripts[Math.min(connections.length, scripts.length - 1)] ?? []
    const name = `connection ${connections.push(socket)}`
    let step = 0
    socket.on('error', () => {})
    socket.on('data', () => {
      requests.push(name)
      const say = script[Math.min(step, script.length - 1)]
      step += 1
      say?.(socket)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stops.push(() => {
    for (const socket of connections) socket.destroy()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  return { url, requests, connections, close: () => server.close() }
}

const ok = (socket: Socket) => socket.write(OK)
const reset = (socket: Socket) => socket.resetAndDestroy()
const end = (socket: Socket) => socket.end()

/** Makes a call and reads its answer, so that its connection is kept. */
async function warm(http: Http, url: string): Promise<void> {
  const answer = await post(http, url, '{}')
  while ((await answer.read()) !== null);
}

const outcome = (calling: Promise<{ readonly status: number }>) =>
  calling.then(
    ({ status }) => `${status}`,
    (error) => (error instanceof HttpFailure ? `${error.code}${error.outcomeUnknown ? ', unknown' : ''}` : `${error}`),
  )

describe('a connection that was used before and breaks under a request', () => {
  test.each([
    ['is reset', reset],
    ['ends in order', end],
  ])('%s: the request is sent once more on a new connection, and told as written twice', async (_name, breaking) => {
    const http = createHttp(clock)
    const server = await scripted([ok, breaking], [ok])
    await warm(http, server.url)
    let writtenCount = 0
    const onWritten = () => {
      writtenCount += 1
    }
    expect(await outcome(post(http, server.url, '{}', { mayRepeat: true, onWritten }))).toBe('200')
    expect(server.requests).toEqual(['connection 1', 'connection 1', 'connection 2'])
    expect(writtenCount).toBe(2)
  })

  test('is a failure for a request that must not be repeated', async () => {
    const http = createHttp(clock)
    const server = await scripted([ok, reset], [ok])
    await warm(http, server.url)
    expect(await outcome(post(http, server.url, '{}'))).toBe('ECONNRESET, unknown')
    expect(server.requests).toEqual(['connection 1', 'connection 1'])
  })

  test('is a failure when any byte of an answer has come', async () => {
    const http = createHttp(clock)
    const server = await scripted([ok, (socket) => socket.end('HTTP/1.1 100 Continue\r\n\r\n')], [ok])
    await warm(http, server.url)
    expect(await outcome(post(http, server.url, '{}', { mayRepeat: true }))).toBe('ECONNRESET, unknown')
    expect(server.requests).toHaveLength(2)
  })

  test('is replaced once, by a new one, even where others are kept', async () => {
    const http = createHttp(clock)
    const server = await scripted([ok, reset], [ok, reset], [reset], [ok])
    const both = [post(http, server.url, '{}'), post(http, server.url, '{}')]
    for (const answer of await Promise.all(both)) while ((await answer.read()) !== null);
    expect(await outcome(post(http, server.url, '{}', { mayRepeat: true }))).toBe('ECONNRESET, unknown')
    expect(server.requests).toHaveLength(4)
    expect(server.connections).toHaveLength(3)
  })

  test('leaves the outcome unknown, although the new one is refused', async () => {
    const http = createHttp(clock)
    const server = await scripted([
      ok,
      (socket) => {
        server.close()
        reset(socket)
      },
    ])
    await warm(http, server.url)
    expect(await outcome(post(http, server.url, '{}', { mayRepeat: true }))).toBe('ECONNREFUSED, unknown')
    expect(await outcome(post(http, server.url, '{}', { mayRepeat: true }))).toBe('ECONNREFUSED')
  })

  test('brings no new request of a caller who has left, before or after', async () => {
    const http = createHttp(clock)
    const leaving = new AbortController()
    const server = await scripted([ok, reset], [() => leaving.abort('left')])
    await warm(http, server.url)
    const way = { mayRepeat: true, signal: leaving.signal }
    expect(await outcome(post(http, server.url, '{}', way))).toBe('left')
    expect(server.requests).toHaveLength(3)

    const early = new AbortController()
    const other = await scripted([ok, () => early.abort('left')], [ok])
    await warm(http, other.url)
    expect(await outcome(post(http, other.url, '{}', { mayRepeat: true, signal: early.signal }))).toBe('left')
    await new Promise((resolve) => setImmediate(resolve))
    expect(other.requests).toHaveLength(2)
  })
})

test('a connection that ends before a byte of the request was written is replaced by a new one for every request', async () => {
  const http = createHttp(clock)
  const server = await scripted([ok], [ok])
  await warm(http, server.url)
  // The request is written at the end of this turn; by then the connection's end has been noticed.
  const held: (() => void)[] = []
  const { setImmediate: runSoon } = globalThis
  Object.assign(globalThis, { setImmediate: (callback: () => void) => held.push(callback) })
  const calling = post(http, server.url, '{}')
  Object.assign(globalThis, { setImmediate: runSoon })
  server.connections[0]?.destroy()
  while (server.connections.length < 2) await new Promise((resolve) => setImmediate(resolve))
  for (const callback of held) callback()
  expect(await outcome(calling)).toBe('200')
  expect(server.requests).toEqual(['connection 1', 'connection 2'])
})

test('a new connection that breaks under a request is a failure, though the request may be repeated', async () => {
  const server = await rawServer((socket) => socket.resetAndDestroy())
  stops.push(server.stop)
  expect(await outcome(post(createHttp(clock), server.url, '{}', { mayRepeat: true }))).toBe('ECONNRESET, unknown')
  expect(server.requests).toHaveLength(1)
})

describe('a connection is used no more often than the server has said', () => {
  test.each([
    ['max=3', 3],
    ['timeout=5, max=1', 1],
    ['timeout=5, max=0', 1],
    ['Max = 2 , Timeout = 5', 2],
    ['timeout=5', 10],
    ['timeout=5, max=many', 10],
  ])('%s: %i requests', async (keepAlive, most) => {
    const http = createHttp(clock)
    const saying = (socket: Socket) => socket.write(OK.replace('\r\n\r\n', `\r\nKeep-Alive: ${keepAlive}\r\n\r\n`))
    const server = await scripted([saying])
    for (let call = 0; call < 10; call += 1) await warm(http, server.url)
    const carried = server.connections.map(
      (_, index) => server.requests.filter((name) => name === `connection ${index + 1}`).length,
    )
    expect(Math.max(...carried)).toBe(most)
  })

  test('a figure that came with one answer holds when later ones name none', async () => {
    const http = createHttp(clock)
    const server = await scripted([
      (socket) => socket.write(OK.replace('\r\n\r\n', '\r\nKeep-Alive: max=3\r\n\r\n')),
      ok,
    ])
    for (let call = 0; call < 4; call += 1) await warm(http, server.url)
    expect(server.requests).toEqual(['connection 1', 'connection 1', 'connection 1', 'connection 2'])
  })
})
