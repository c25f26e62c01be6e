import { afterEach, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { TurnedClock } from '../../../test/clock.ts'
import { END_OF_BODY, head, piece, type RawServer, rawServer } from '../../../test/rawServer.ts'
import { createHttp } from '../../infra/httpClient/client.ts'
import { ByteBudget, type MemoryReservation } from '../../lib/byteBudget.ts'
import { failureOfStatus } from '../openai/failure.ts'
import { ProviderFailure } from './spec.ts'
import { postForWhole, wholeHeaders } from './whole.ts'

const running: RawServer[] = []
afterEach(() => {
  for (const server of running.splice(0)) server.stop()
})

const clock = new TurnedClock()
const MOST_BYTES = 100_000
/** Answers of these tests are small. */
const NO_MEMORY = new ByteBudget(0, 0, 0).open('one')
const JSON_TYPE = 'application/json'

/** Calls a server that answers so. Returns the text, or the failure and whether another target may be asked. */
async function ask(
  answer: (socket: Socket) => void,
  isRepeatable = true,
  signal = new AbortController().signal,
  large: { readonly memory: MemoryReservation; readonly maxBytes: number } = {
    memory: NO_MEMORY,
    maxBytes: MOST_BYTES,
  },
) {
  const server = await rawServer(answer)
  running.push(server)
  const headers = wholeHeaders({ 'X-Team': 'a', Accept: 'text/html' }, 'secret')
  const more = {
    headers,
    body: '{}',
    signal,
    connectMs: 1_000,
    isRepeatable,
    failureOfStatus,
    ...large,
  }
  try {
    const pieces = await postForWhole(createHttp(clock), clock, { url: `${server.url}/v1/x`, ...more })
    return { server, text: Buffer.concat(pieces).toString(), pieces }
  } catch (error) {
    if (!(error instanceof ProviderFailure)) return { server, text: String(error), pieces: [] }
    return {
      server,
      pieces: [],
      text: `${error.name} ${error.kind}${error.mayFailOver ? ', go on' : ''}`.replace('ProviderFailure ', ''),
    }
  }
}

const saying =
  (...parts: (string | Buffer)[]) =>
  (socket: Socket) => {
    for (const part of parts) socket.write(part)
  }

test('the answer is put together as it came; our headers are ours', async () => {
  const { text, server } = await ask(saying(head('200 OK', JSON_TYPE), piece('{"a"'), piece(':1}'), END_OF_BODY))
  expect(text).toBe('{"a":1}')
  const [request = ''] = server.requests
  expect(request).toStartWith('POST /v1/x HTTP/1.1\r\n')
  for (const line of [
    'authorization: Bearer secret',
    'x-team: a',
    'accept: application/json',
    'accept-encoding: identity',
  ]) {
    expect(request).toContain(`\r\n${line}\r\n`)
  }
})

test('an answer in chunks of one byte is in few pieces, each in a buffer of its own', async () => {
  const text = `{"a":"${'x'.repeat(50_000)}"}`
  const chunks = Buffer.concat([...text].map((each) => piece(each)))
  const answer = await ask(saying(head('200 OK', JSON_TYPE), chunks, END_OF_BODY))
  expect(answer.text).toBe(text)
  expect(answer.pieces.length).toBeLessThan(20)
  expect(new Set(answer.pieces.map(({ buffer }) => buffer)).size).toBe(answer.pieces.length)
})

const closing = (socket: Socket) => socket.destroy()
const half = (socket: Socket) => {
  socket.write(Buffer.concat([Buffer.from(head('200 OK', JSON_TYPE)), piece('{"a"')]))
  socket.end()
}
const bomb = gzipSync(Buffer.alloc(1 << 20))

test.each<[string, (socket: Socket) => void, repeatable: string, once: string]>([
  ['closes without a word', closing, 'unavailable, go on', 'unavailable'],
  ['breaks off', half, 'faulty, go on', 'faulty'],
  ['breaks off after its head', (socket) => socket.end(head('200 OK', JSON_TYPE)), 'unavailable, go on', 'unavailable'],
  ['says 503', saying('HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n'), 'unavailable, go on', 'unavailable, go on'],
  ['says 504', saying('HTTP/1.1 504 No\r\nContent-Length: 0\r\n\r\n'), 'unavailable, go on', 'unavailable'],
  ['says 502', saying('HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n'), 'unavailable, go on', 'unavailable'],
  ['says 401', saying('HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n'), 'misconfigured', 'misconfigured'],
  ['says 400', saying('HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n'), 'rejected', 'rejected'],
  [
    'says something endless with 500',
    saying(head('500 No', JSON_TYPE), piece('x'.repeat(80_000))),
    'unavailable, go on',
    'unavailable, go on',
  ],
  ['sends HTML', saying(head('200 OK', 'text/html'), piece('<p>'), END_OF_BODY), 'faulty', 'faulty'],
  ['is no HTTP', saying('220 mail.example.com ESMTP\r\n'), 'faulty', 'faulty'],
  ['sends a bomb', saying(head('200 OK', JSON_TYPE, 'Content-Encoding: gzip\r\n'), piece(bomb)), 'faulty', 'faulty'],
  [
    'announces too much',
    saying(`HTTP/1.1 200 OK\r\nContent-Type: ${JSON_TYPE}\r\nContent-Length: ${MOST_BYTES + 1}\r\n\r\n`),
    'too_large',
    'too_large',
  ],
  ['sends too much', saying(head('200 OK', JSON_TYPE), piece('x'.repeat(MOST_BYTES + 1))), 'too_large', 'too_large'],
])('a server that %s', async (_name, answer, repeatable, once) => {
  expect((await ask(answer, true)).text).toBe(repeatable)
  expect((await ask(answer, false)).text).toBe(once)
})

test('a caller who leaves closes the connection', async () => {
  const client = new AbortController()
  const { text, server } = await ask(() => client.abort('left'), true, client.signal)
  expect(text).toBe('left')
  await server.closed(1)
})

const LARGE = 'x'.repeat(3 << 20)
const announced = saying(
  `HTTP/1.1 200 OK\r\nContent-Type: ${JSON_TYPE}\r\nContent-Length: ${LARGE.length}\r\n\r\n`,
  LARGE,
)
const unannounced = saying(head('200 OK', JSON_TYPE), piece(LARGE), END_OF_BODY)

test.each([
  ['announced', announced],
  ['not announced', unannounced],
])('a large answer, %s, has twice its bytes of memory until its caller gives them back', async (_, answer) => {
  const budget = new ByteBudget(100 << 20, 0, 100 << 20)
  const memory = budget.open('one')
  const { text } = await ask(answer, true, undefined, { memory, maxBytes: 8 << 20 })
  expect([text.length, budget.takenBytes]).toEqual([LARGE.length, 2 * LARGE.length])
})

test('where there is no memory a large answer waits; where too many wait it is a failure of ours', async () => {
  const budget = new ByteBudget(8 << 20, 1, 8 << 20)
  const first = budget.open('one')
  await first.take(4 << 20, new AbortController().signal)
  const large = () => ask(announced, true, undefined, { memory: budget.open('one'), maxBytes: 8 << 20 })
  const waiting = large()
  while (budget.waiting === 0) await new Promise((resolve) => setImmediate(resolve))
  expect((await large()).text).toBe('NoMemoryLeft unavailable')
  expect((await ask(saying(head('200 OK', JSON_TYPE), piece('{}'), END_OF_BODY))).text).toBe('{}')
  first.close()
  expect((await waiting).text).toHaveLength(LARGE.length)
})

test('an answer of unknown length takes memory for a quarter of the most that it may have, and twice as much each time it is longer', async () => {
  const budget = new ByteBudget(100 << 20, 0, 100 << 20)
  const taken: number[] = []
  const memory = budget.open('one')
  const noted: MemoryReservation = {
    ...memory,
    async take(bytes, signal) {
      taken.push(bytes)
      await memory.take(bytes, signal)
    },
    set(bytes) {
      taken.push(bytes)
      memory.set(bytes)
    },
  }
  await ask(unannounced, true, undefined, { memory: noted, maxBytes: 8 << 20 })
  expect(taken).toEqual([4 << 20, 8 << 20, 2 * LARGE.length])
  taken.length = 0
  await ask(unannounced, true, undefined, { memory: noted, maxBytes: 4 << 20 })
  expect(taken).toEqual([2 << 20, 4 << 20, 8 << 20, 2 * LARGE.length])
})
