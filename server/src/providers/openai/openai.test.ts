import { afterEach, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { TurnedClock } from '../../../test/clock.ts'
import { providerFailureOf } from '../../../test/providerFailure.ts'
import { END_OF_BODY, head, piece, type RawServer, rawServer } from '../../../test/rawServer.ts'
import { createHttp } from '../../infra/httpClient/client.ts'
import type { ChatEvent } from '../dialect/spec.ts'
import { openaiProvider } from './openai.ts'

const running: RawServer[] = []
afterEach(() => {
  for (const server of running.splice(0)) server.stop()
})

const CALL = {
  model: 'm',
  messages: [{ role: 'user' as const, content: 'Hi' }],
  maxTokens: null,
  outputTokens: 100,
  temperature: null,
}
const SAY = 'data: {"choices":[{"delta":{"content":"Hello"}}]}\n\n'
const STOP = 'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
const DONE = 'data: [DONE]\n\n'
const CONNECT_MS = 5_000
const clock = new TurnedClock()

/** A provider in front of a server that answers so. */
async function providerOver(answer: (socket: Socket, index: number) => void, bearer: string | null = null) {
  const server = await rawServer(answer)
  running.push(server)
  const address = () => `${server.url}/v1`
  return {
    server,
    provider: openaiProvider({ name: 'u', address, bearer: () => bearer, http: createHttp(clock), clock }),
  }
}

function saying(...parts: (string | Buffer)[]) {
  return (socket: Socket) => {
    for (const part of parts) socket.write(part)
  }
}

async function readAll(provider: ReturnType<typeof openaiProvider>, signal = new AbortController().signal) {
  const events: ChatEvent[] = []
  for await (const event of await provider.chat(CALL, signal, CONNECT_MS)) events.push(event)
  return events
}

const WHOLE: ChatEvent[] = [
  { kind: 'text', text: 'Hello' },
  { kind: 'finish', reason: 'stop' },
]

test('a call goes out with our headers and our body only', async () => {
  const { server, provider } = await providerOver(saying(head(), piece(SAY + STOP + DONE), END_OF_BODY), 'secret')
  expect(await readAll(provider)).toEqual(WHOLE)
  const [request = ''] = server.requests
  expect(request.split('\r\n')[0]).toBe('POST /v1/chat/completions HTTP/1.1')
  expect(request.toLowerCase()).toContain('authorization: bearer secret')
  const names = [...request.matchAll(/^([\w-]+):/gm)].map((match) => match[1]?.toLowerCase()).sort()
  expect(names).toEqual([
    'accept',
    'accept-encoding',
    'authorization',
    'content-length',
    'content-type',
    'host',
    'user-agent',
  ])
  expect(JSON.parse(request.slice(request.indexOf('\r\n\r\n')))).toMatchObject({ model: 'm', stream: true })
})

test("settings may add headers and name the client otherwise, and can't replace what the call depends on", async () => {
  const { server } = await providerOver(saying(head(), piece(SAY + STOP + DONE), END_OF_BODY))
  const extraHeaders = { 'User-Agent': 'theirs', 'Accept-Encoding': 'gzip', Authorization: 'theirs', 'X-Team': 'a' }
  const address = () => `${server.url}/v1`
  const bearer = () => 'ours'
  await readAll(openaiProvider({ name: 'u', address, bearer, extraHeaders, http: createHttp(clock), clock }))
  const [request = ''] = server.requests
  expect(request).toMatch(/^x-team: a\r$/im)
  expect(request).toMatch(/^user-agent: theirs\r$/im)
  expect(request).toMatch(/^accept-encoding: identity\r$/im)
  expect(request).toMatch(/^authorization: Bearer ours\r$/im)
})

test('calls one after the other share a connection', async () => {
  const sockets = new Set<Socket>()
  const { provider } = await providerOver((socket) => {
    sockets.add(socket)
    saying(head(), piece(SAY + STOP + DONE), END_OF_BODY)(socket)
  })
  for (let call = 0; call < 3; call += 1) expect(await readAll(provider)).toEqual(WHOLE)
  expect(sockets.size).toBe(1)
})

test('one JSON document in place of a stream is understood', async () => {
  const body = '{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}'
  const { provider } = await providerOver(saying(head('200 OK', 'application/json'), piece(body), END_OF_BODY))
  expect(await readAll(provider)).toEqual(WHOLE)
})

const HTML = '<html>Welcome to nginx!</html>'
const misbehaving: [string, (string | Buffer)[], object][] = [
  ['HTML', [head('200 OK', 'text/html'), piece(HTML), END_OF_BODY], { kind: 'faulty', mayFailOver: false }],
  ['no content type', ['HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'], { kind: 'faulty' }],
  ['HTML with 503', [head('503 X', 'text/html'), piece(HTML), END_OF_BODY], { kind: 'unavailable', mayFailOver: true }],
  [
    '429 with a time',
    [head('429 X', 'application/json', 'Retry-After: 9\r\n'), piece('{}'), END_OF_BODY],
    { kind: 'unavailable', mayFailOver: true, retryAfterSeconds: 9 },
  ],
  ['401', [head('401 X', 'application/json'), piece('{}'), END_OF_BODY], { kind: 'misconfigured', mayFailOver: false }],
  ['a redirect', ['HTTP/1.1 302 X\r\nLocation: /\r\nContent-Length: 0\r\n\r\n'], { kind: 'misconfigured' }],
  ['an error body without end', [head('400 X', 'application/json'), piece('x'.repeat(200_000))], { kind: 'rejected' }],
  [
    'a gzip bomb',
    [head('200 OK', 'text/event-stream', 'Content-Encoding: gzip\r\n'), piece(gzipSync(Buffer.alloc(20_000_000)))],
    { kind: 'faulty' },
  ],
  [
    'JSON without end',
    [head('200 OK', 'application/json'), ...new Array(10).fill(piece('x'.repeat(1 << 20)))],
    { kind: 'faulty' },
  ],
  ['JSON cut short', [head('200 OK', 'application/json'), piece('{"choices":['), END_OF_BODY], { kind: 'faulty' }],
  [
    'JSON without an end to the answer',
    [head('200 OK', 'application/json'), piece('{"choices":[]}'), END_OF_BODY],
    { kind: 'faulty' },
  ],
  ['a line without end', [head(), ...new Array(10).fill(piece(`data: ${'x'.repeat(1 << 20)}`))], { kind: 'faulty' }],
  ['half an answer, ended properly', [head(), piece(SAY), END_OF_BODY], { kind: 'faulty', mayFailOver: false }],
  ['what is no HTTP', ['220 mail ready\r\n\r\n'], { kind: 'faulty' }],
]
test.each(misbehaving)('a server that sends %s', async (_name, parts, failure) => {
  const { provider } = await providerOver(saying(...parts))
  expect(await providerFailureOf(readAll(provider))).toMatchObject(failure)
})

test('a connection that breaks before the answer may be answered for by another; in mid-answer it may not', async () => {
  const sockets: Socket[] = []
  const { provider } = await providerOver((socket, index) => {
    sockets.push(socket)
    if (index === 0) socket.resetAndDestroy()
    else if (index === 1) socket.end(head())
    else saying(head(), piece(SAY))(socket)
  })
  expect(await providerFailureOf(readAll(provider))).toMatchObject({ kind: 'unavailable', mayFailOver: true })
  expect(await providerFailureOf(readAll(provider))).toMatchObject({ kind: 'unavailable', mayFailOver: true })
  const answer = (await provider.chat(CALL, new AbortController().signal, CONNECT_MS))[Symbol.asyncIterator]()
  expect((await answer.next()).value).toEqual({ kind: 'text', text: 'Hello' })
  sockets[2]?.destroy()
  expect(await providerFailureOf(answer.next())).toMatchObject({ kind: 'faulty', mayFailOver: false })
})

test('a server that is not there may be answered for by another', async () => {
  const { server, provider } = await providerOver(() => {})
  server.stop()
  expect(await providerFailureOf(readAll(provider))).toMatchObject({ kind: 'unavailable', mayFailOver: true })
  const absent = openaiProvider({ name: 'u', address: () => null, bearer: () => null, http: createHttp(clock), clock })
  expect(await providerFailureOf(readAll(absent))).toMatchObject({ kind: 'unavailable', mayFailOver: true })
})

test('an abort is seen by the server, before the headers and in mid-answer', async () => {
  const { server, provider } = await providerOver((socket, index) => {
    if (index === 1) saying(head(), piece(SAY))(socket)
  })
  const early = new AbortController()
  const starting = providerFailureOf(readAll(provider, early.signal))
  await server.requested(1)
  early.abort('left')
  expect(await starting).toBe('left' as never)
  await server.closed(1)

  const late = new AbortController()
  const answer = (await provider.chat(CALL, late.signal, CONNECT_MS))[Symbol.asyncIterator]()
  expect((await answer.next()).value).toEqual({ kind: 'text', text: 'Hello' })
  const waiting = providerFailureOf(answer.next())
  late.abort('left')
  expect(await waiting).toBe('left' as never)
  await server.closed(2)
})

test('leaving an answer early is seen by the server', async () => {
  const { server, provider } = await providerOver(saying(head(), piece(SAY)))
  for await (const _event of await provider.chat(CALL, new AbortController().signal, CONNECT_MS)) break
  await server.closed(1)
})
