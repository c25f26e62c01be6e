import { afterEach, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { TurnedClock } from '../../../test/clock.ts'
import { type Asked, type JobServer, jobServer, wholeOf } from '../../../test/jobServer.ts'
import { providerFailureOf } from '../../../test/providerFailure.ts'
import { rawServer } from '../../../test/rawServer.ts'
import { createHttp } from '../../infra/httpClient/client.ts'
import type { VideoCall } from '../dialect/spec.ts'
import { formOf, openaiVideo, stateFromWire } from './video.ts'

const clock = new TurnedClock()
const http = createHttp(clock)
const CONNECT_MS = 5_000
const signal = new AbortController().signal
const CALL: VideoCall = {
  model: 'Wan-AI/Wan2.2-T2V-A14B',
  prompt: 'Ein Tor – at "dawn"\r\nwith mist',
  seconds: 4,
  size: { width: 832, height: 480 },
  attemptId: '0190a000-0000-7000-8000-000000000001',
}

const running: { stop(): void }[] = []
afterEach(() => {
  for (const server of running.splice(0)) server.stop()
})

function over(answer: (asked: Asked, index: number) => Response | Promise<Response>): {
  server: JobServer
  video: ReturnType<typeof openaiVideo>
} {
  const server = jobServer(answer)
  running.push(server)
  return { server, video: at(server.url) }
}

const at = (url: string, apiKey: string | null = 'secret') =>
  openaiVideo({ baseUrl: `${url}/v1`, apiKey, extraHeaders: { 'x-team': 'a' }, http, clock })

test('a job is asked for by a form, with our headers only', async () => {
  const { server, video } = over(() => Response.json({ id: 'video_gen_1', object: 'video', status: 'queued' }))
  expect(await video.submit(CALL, signal, CONNECT_MS)).toBe('video_gen_1')
  const [asked] = server.asked
  expect([asked?.method, asked?.path]).toEqual(['POST', '/v1/videos'])
  const form = await new Response(asked?.body, {
    headers: { 'content-type': asked?.headers.get('content-type') ?? '' },
  }).formData()
  expect(Object.fromEntries(form)).toEqual({
    model: CALL.model,
    prompt: CALL.prompt,
    seconds: '4',
    size: '832x480',
  })
  expect(asked?.headers.get('authorization')).toBe('Bearer secret')
  expect(asked?.headers.get('x-team')).toBe('a')
  expect([...(asked?.headers.keys() ?? [])].sort()).toEqual([
    'accept',
    'accept-encoding',
    'authorization',
    'content-length',
    'content-type',
    'host',
    'user-agent',
    'x-team',
  ])
})

test('a model of one size is told none', async () => {
  const { body, contentType } = formOf({ ...CALL, size: null })
  const form = await new Response(body, { headers: { 'content-type': contentType } }).formData()
  expect([...form.keys()]).toEqual(['model', 'prompt', 'seconds'])
})

test.each([
  [{ status: 'queued', progress: 0 }, { kind: 'waiting' }],
  [
    { status: 'in_progress', progress: 37 },
    { kind: 'working', progress: 37 },
  ],
  [{ status: 'in_progress' }, { kind: 'working', progress: null }],
  [
    { status: 'in_progress', progress: 900 },
    { kind: 'working', progress: null },
  ],
  [{ status: 'completed', progress: 100 }, { kind: 'done' }],
  [
    { status: 'failed', error: null },
    { kind: 'failed', code: 'upstream_error', detail: 'the job failed' },
  ],
  [
    { status: 'failed', error: { code: 'moderation_blocked', message: 'your prompt: canary' } },
    { kind: 'failed', code: 'content_policy', detail: 'the provider says moderation_blocked' },
  ],
  [
    { status: 'failed', error: { code: 500, message: 'canary' } },
    { kind: 'failed', code: 'upstream_error', detail: 'the provider says 500' },
  ],
  [
    { status: 'cancelled', error: { code: 'the prompt canary' } },
    { kind: 'failed', code: 'upstream_error', detail: 'the job failed' },
  ],
  [{ status: 'deleted' }, { kind: 'unknown' }],
] as const)('%p is understood', (document, state) => {
  expect(stateFromWire(document)).toEqual(state as ReturnType<typeof stateFromWire>)
})

test.each(['...', '.a', 'a..', 'video:1.0-x_y'])('an id with dots is an id: %s', async (id) => {
  const { video } = over(() => Response.json({ id, status: 'queued' }))
  expect(await video.submit(CALL, signal, CONNECT_MS)).toBe(id)
})

test('a job is looked at by its id; one that is not there is unknown', async () => {
  const { server, video } = over(({ path }) =>
    path === '/v1/videos/video_1'
      ? Response.json({ id: 'video_1', status: 'in_progress', progress: 5 })
      : Response.json({ detail: 'Video not found' }, { status: path.endsWith('410') ? 410 : 404 }),
  )
  expect(await video.look('video_1', signal, CONNECT_MS)).toEqual({ kind: 'working', progress: 5 })
  expect(await video.look('gone', signal, CONNECT_MS)).toEqual({ kind: 'unknown' })
  expect(await video.look('gone410', signal, CONNECT_MS)).toEqual({ kind: 'unknown' })
  expect(server.asked[0]?.headers.get('content-length')).toBeNull()
})

test('an answer about another job is not believed', async () => {
  const { video } = over(() => Response.json({ id: 'video_2', status: 'completed' }))
  expect(await providerFailureOf(video.look('video_1', signal, CONNECT_MS))).toMatchObject({ kind: 'faulty' })
})

test('cancelling asks for the deletion, and is harmless when there is nothing to delete', async () => {
  const { server, video } = over((_asked, index) =>
    index === 0 ? Response.json({ deleted: true }) : new Response('{}', { status: [204, 404, 409, 405][index] ?? 204 }),
  )
  for (let time = 0; time < 4; time += 1) await video.cancel('video_1', signal, CONNECT_MS)
  expect(server.asked.map(({ method, path }) => `${method} ${path}`)).toEqual(
    Array.from({ length: 4 }, () => 'DELETE /v1/videos/video_1'),
  )
})

test.each([
  [400, { kind: 'rejected', mayFailOver: false }],
  [401, { kind: 'misconfigured', mayFailOver: false }],
  [404, { kind: 'misconfigured' }],
  [429, { kind: 'unavailable', mayFailOver: true, mayAskAgain: true, retryAfterSeconds: 7 }],
  [500, { kind: 'unavailable', mayFailOver: true }],
  [524, { kind: 'unavailable', mayFailOver: false, mayAskAgain: false }],
  // A proxy's words for "nobody knows": the job may have been begun.
  [502, { kind: 'unavailable', mayFailOver: false, mayAskAgain: false }],
  [504, { kind: 'unavailable', mayFailOver: false, mayAskAgain: false }],
])('status %d when a job is asked for', async (status, expected) => {
  const { video } = over(() =>
    Response.json({ error: { message: 'canary' } }, { status, headers: { 'retry-after': '7' } }),
  )
  const failure = await providerFailureOf(video.submit(CALL, signal, CONNECT_MS))
  expect(failure).toMatchObject(expected)
  expect(failure.message).not.toContain('canary')
})

test.each([
  ['HTML', () => new Response('<html>', { headers: { 'content-type': 'text/html' } })],
  ['a list', () => Response.json([])],
  ['no id', () => Response.json({ status: 'queued' })],
  ['an id that is a path', () => Response.json({ id: '../secrets' })],
  ['the id "."', () => Response.json({ id: '.' })],
  ['the id ".."', () => Response.json({ id: '..' })],
  ['too much', () => Response.json({ id: 'x'.repeat(2 << 20) })],
])('%s in place of a job is no job', async (_name, answer) => {
  const { video } = over(answer)
  expect((await providerFailureOf(video.submit(CALL, signal, CONNECT_MS))).kind).toMatch(/faulty|too_large/)
})

test('a server that is away was asked nothing; one that breaks off may have begun', async () => {
  expect(await providerFailureOf(at('http://127.0.0.1:1').submit(CALL, signal, CONNECT_MS))).toMatchObject({
    kind: 'unavailable',
    mayFailOver: true,
    mayAskAgain: true,
  })
  const server = await rawServer((socket) => void socket.destroy())
  running.push(server)
  const video = at(server.url)
  expect(await providerFailureOf(video.submit(CALL, signal, CONNECT_MS))).toMatchObject({
    mayFailOver: false,
    mayAskAgain: false,
  })
  expect(await providerFailureOf(video.look('video_1', signal, CONNECT_MS))).toMatchObject({
    kind: 'unavailable',
    mayFailOver: true,
  })
})

test('the file comes in pieces, as fast as they are taken', async () => {
  let written = 0
  let socket: Socket | null = null
  const PIECE = 64 << 10
  const COUNT = 400
  const server = await rawServer((opened) => {
    socket = opened
    opened.write(`HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: ${PIECE * COUNT}\r\n\r\n`)
    const send = () => {
      while (written < COUNT) {
        written += 1
        if (!opened.write(new Uint8Array(PIECE).fill(written))) return void opened.once('drain', send)
      }
    }
    send()
  })
  running.push(server)
  const pieces = await at(server.url).download('video_1', signal, CONNECT_MS)
  const iterator = pieces[Symbol.asyncIterator]()
  await iterator.next()
  // Nobody takes the rest: what the system's buffers hold is all that is sent.
  for (let turn = 0, before = -1; turn < 50 || before !== written; turn += 1) {
    before = written
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(written).toBeLessThan(COUNT)
  let bytes = 0
  for (let next = await iterator.next(); next.done !== true; next = await iterator.next())
    bytes += next.value.byteLength
  expect(bytes).toBeGreaterThan(PIECE * (COUNT - 100))
  expect(socket).not.toBeNull()
})

test('a file that breaks off is a failure, and so is one that is not there', async () => {
  const server = await rawServer((socket) => {
    socket.end('HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: 1000\r\n\r\nabc')
  })
  running.push(server)
  const pieces = await at(server.url).download('video_1', signal, CONNECT_MS)
  expect(await providerFailureOf(wholeOf(pieces))).toMatchObject({ kind: 'unavailable', mayFailOver: false })
  const { video } = over(() => Response.json({ detail: 'Generation is still in-progress' }, { status: 404 }))
  expect((await providerFailureOf(video.download('video_1', signal, CONNECT_MS))).kind).toBe('misconfigured')
})

test('a reader that stops taking the file, or aborts, closes the connection', async () => {
  const server = await rawServer((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: 1000\r\n\r\nabc')
  })
  running.push(server)
  for await (const _piece of await at(server.url).download('video_1', signal, CONNECT_MS)) break
  await server.closed(1)
  const leaves = new AbortController()
  const reading = wholeOf(await at(server.url).download('video_1', leaves.signal, CONNECT_MS))
  leaves.abort(new Error('left'))
  expect(String(await providerFailureOf(reading))).toContain('left')
  await server.closed(2)
})
