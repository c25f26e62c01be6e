import { afterEach, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { TurnedClock } from '../../test/clock.ts'
import { END_OF_BODY, head, piece, type RawServer, rawServer } from '../../test/rawServer.ts'
import { createHttp } from '../io/http/client.ts'
import { ByteBudget, type Room } from '../kernel/byteBudget.ts'
import { failureOfStatus } from './openai/failure.ts'
import { UpstreamFailure } from './spec.ts'
import { postForWhole, wholeHeaders } from './whole.ts'

const running: RawServer[] = []
afterEach(() => {
  for (const server of running.splice(0)) server.stop()
})

const clock = new TurnedClock()
const MOST_BYTES = 100_000
/** Answers of these tests are small. */
const NO_ROOM = new ByteBudget(0, 0).open()
const JSON_TYPE = 'application/json'

/** What a call to a server that answers so comes to: its text, or the failure and whether another target may be asked. */
async function ask(
  answer: (socket: Socket) => void,
  isRepeatable = true,
  signal = new AbortController().signal,
  large: { readonly room: Room; readonly maxBytes: number } = { room: NO_ROOM, maxBytes: MOST_BYTES },
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
    return { server, text: Buffer.concat(pieces).toString() }
  } catch (error) {
    if (!(error instanceof UpstreamFailure)) return { server, text: String(error) }
    return {
      server,
      text: `${error.name} ${error.kind}${error.mayFailOver ? ', go on' : ''}`.replace('UpstreamFailure ', ''),
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
])('a large answer, %s, has twice its bytes of the room until its caller gives them back', async (_, answer) => {
  const budget = new ByteBudget(100 << 20, 0)
  const room = budget.open()
  const { text } = await ask(answer, true, undefined, { room, maxBytes: 8 << 20 })
  expect([text.length, budget.takenBytes]).toEqual([LARGE.length, 2 * LARGE.length])
})

test('where there is no memory a large answer waits; where too many wait it is a failure of ours', async () => {
  const budget = new ByteBudget(8 << 20, 1)
  const first = budget.open()
  await first.take(4 << 20, new AbortController().signal)
  const large = () => ask(announced, true, undefined, { room: budget.open(), maxBytes: 8 << 20 })
  const waiting = large()
  while (budget.waiting === 0) await new Promise((resolve) => setImmediate(resolve))
  expect((await large()).text).toBe('NoRoom unavailable')
  expect((await ask(saying(head('200 OK', JSON_TYPE), piece('{}'), END_OF_BODY))).text).toBe('{}')
  first.close()
  expect((await waiting).text).toHaveLength(LARGE.length)
})
