import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeClip, probeSeconds } from '../../../test/clip.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { type Asked, jobServer, wholeOf } from '../../../test/jobServer.ts'
import { providerFailureOf } from '../../../test/providerFailure.ts'
import { head, rawServer } from '../../../test/rawServer.ts'
import { createHttp } from '../../infra/httpClient/client.ts'
import { findProgram } from '../../infra/program.ts'
import type { ProviderFailure, VideoCall } from '../dialect/spec.ts'
import { MediaSearch, mediaOf } from './media.ts'
import { sdcppVideo, videoCallToWire } from './video.ts'

const clock = new TurnedClock()
const http = createHttp(clock)
const CONNECT_MS = 5_000
const signal = new AbortController().signal
const CALL: VideoCall = {
  model: 'wan',
  prompt: 'a toll gate',
  seconds: 2,
  size: { width: 64, height: 48 },
  attemptId: 'a1',
}
const CAPABILITIES = {
  supported_modes: ['vid_gen'],
  defaults_by_mode: { vid_gen: { fps: 16, video_frames: 33 } },
  output_formats_by_mode: { vid_gen: ['webm', 'webp', 'avi'] },
}

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sdcpp-'))
})
afterAll(() => rm(directory, { recursive: true }))
const running: { stop(): void }[] = []
afterEach(() => {
  for (const server of running.splice(0)) server.stop()
})

function over(answer: (asked: Asked) => Response, ffmpeg = findProgram('ffmpeg')) {
  const server = jobServer((asked) =>
    asked.path === '/sdcpp/v1/capabilities' ? Response.json(CAPABILITIES) : answer(asked),
  )
  running.push(server)
  const baseUrl = `${server.url}/v1`
  return { server, video: sdcppVideo({ baseUrl, apiKey: null, extraHeaders: {}, ffmpeg, http, clock }) }
}

/** The document of a job that is done, its fields in the order in which the server writes them. */
const doneWith = (media: Uint8Array, more = '') =>
  new Response(
    `{"completed":1775401300,"created":1775401200,"error":null,"id":"job_1","kind":"vid_gen","queue_position":0,"result":{"b64_json":"${Buffer.from(media).toString('base64')}"${more},"fps":16,"frame_count":33,"mime_type":"video/webm","output_format":"webm"},"started":1775401201,"status":"completed"}`,
    { headers: { 'content-type': 'application/json' } },
  )

/** Lists the temporary folders that transcoding has left over. */
const leftOver = async () => (await readdir(tmpdir())).filter((name) => name.startsWith('tollgate-clip-'))

test('a job is asked for in frames, at the pace of the server', async () => {
  const { server, video } = over(() =>
    Response.json({ id: 'job_01', kind: 'vid_gen', status: 'queued', poll_url: '/x' }, { status: 202 }),
  )
  expect(await video.submit(CALL, signal, CONNECT_MS)).toBe('job_01')
  expect(server.asked.map(({ method, path }) => `${method} ${path}`)).toEqual([
    'GET /sdcpp/v1/capabilities',
    'POST /sdcpp/v1/vid_gen',
  ])
  expect(JSON.parse(server.asked[1]?.body ?? '')).toEqual({
    prompt: 'a toll gate',
    width: 64,
    height: 48,
    seed: -1,
    video_frames: 33,
    fps: 16,
    output_format: 'webm',
  })
})

test('a server without webm makes avi; one whose model makes no videos is the operator’s matter', () => {
  const without = { ...CAPABILITIES, output_formats_by_mode: { vid_gen: ['avi'] } }
  expect(JSON.parse(videoCallToWire({ ...CALL, size: null }, without))).toEqual({
    prompt: 'a toll gate',
    seed: -1,
    video_frames: 33,
    fps: 16,
    output_format: 'avi',
  })
  for (const said of [{}, { defaults_by_mode: { img_gen: {} } }, { defaults_by_mode: { vid_gen: { fps: 0 } } }]) {
    expect(() => videoCallToWire(CALL, said)).toThrow('makes no videos')
  }
})

test.each([
  [429, { error: 'job queue is full' }, { kind: 'unavailable', mayFailOver: true, mayAskAgain: true }],
  [400, { error: 'invalid generation parameters' }, { kind: 'rejected' }],
] as const)('status %d when a job is asked for', async (status, body, expected) => {
  const { video } = over(() => Response.json(body, { status }))
  expect(await providerFailureOf(video.submit(CALL, signal, CONNECT_MS))).toMatchObject(expected)
})

test('a prompt that holds settings of the server is refused in our words, before anything is asked', async () => {
  const { server, video } = over(() => Response.json({ id: 'x' }))
  const prompt = 'a <sd_cpp_extra_args>{}</sd_cpp_extra_args>'
  const failure = await providerFailureOf(video.submit({ ...CALL, prompt }, signal, CONNECT_MS))
  expect(failure).toMatchObject({ kind: 'rejected', publicMessage: expect.stringContaining('must not contain') })
  expect(server.asked).toEqual([])
})

test.each([
  [{ status: 'queued', queue_position: 2 }, { kind: 'waiting' }],
  [{ status: 'generating' }, { kind: 'working', progress: null }],
  [
    { status: 'failed', error: { code: 'generation_failed', message: 'canary' } },
    { kind: 'failed', code: 'upstream_error', detail: 'the job is failed' },
  ],
  [{ status: 'cancelled' }, { kind: 'failed', code: 'upstream_error', detail: 'the job is cancelled' }],
  [{ status: 'completed', result: { b64_json: 'AAAA' } }, { kind: 'done' }],
] as const)('%p is understood', async (document, state) => {
  const { video } = over(() => Response.json({ completed: null, ...document }))
  expect(await video.look('job_1', signal, CONNECT_MS)).toEqual(state as Awaited<ReturnType<typeof video.look>>)
})

test('a job that the server has forgotten is unknown', async () => {
  for (const status of [404, 410]) {
    const { video } = over(() => Response.json({ error: 'job expired' }, { status }))
    expect(await video.look('job_1', signal, CONNECT_MS)).toEqual({ kind: 'unknown' })
  }
})

test('of a job that is done only the beginning is read when it is looked at', async () => {
  let sent = 0
  const { video } = over(() => {
    const start = Buffer.from('{"completed":1,"error":null,"id":"job_1","result":{"b64_json":"')
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(sent === 0 ? start : Buffer.alloc(1 << 20, 'A'))
        sent += 1
        if (sent > 1_000) controller.close()
      },
    })
    return new Response(body, { headers: { 'content-type': 'application/json' } })
  })
  expect(await video.look('job_1', signal, CONNECT_MS)).toEqual({ kind: 'done' })
  expect(sent).toBeLessThan(100)
})

test.each([
  ['webm', '-c:v libvpx -f webm', 63],
  ['avi', '-c:v mjpeg -f avi', 64],
])('%s becomes an mp4 that plays as long', async (_name, words, width) => {
  const source = await makeClip(directory, `-f lavfi -i testsrc2=s=${width}x48:r=16:d=2 ${words}`)
  const { video } = over(() => doneWith(new Uint8Array()))
  expect(video).toBeDefined()
  const bytes = await readFile(source)
  const { video: done } = over(() => doneWith(bytes))
  const clip = await wholeOf(await done.download('job_1', signal, CONNECT_MS))
  const path = join(directory, `${_name}.mp4`)
  await writeFile(path, clip)
  expect(clip.toString('latin1', 4, 8)).toBe('ftyp')
  // Its tables come first, so that it plays while it is fetched.
  expect(clip.indexOf('moov')).toBeLessThan(clip.indexOf('mdat'))
  expect(Math.abs((await probeSeconds(path)) - 2)).toBeLessThan(0.05)
  expect(await leftOver()).toEqual([])
})

test('a clip that is an mp4 already is given as it is', async () => {
  const bytes = await readFile(await makeClip(directory, '-f lavfi -i testsrc2=s=64x48:r=16:d=1 -c:v libx264'))
  const { video } = over(() => doneWith(bytes), null)
  expect((await wholeOf(await video.download('job_1', signal, CONNECT_MS))).equals(bytes)).toBe(true)
})

const EBML = Buffer.from('1a45dfa3', 'hex')

test.each([
  ['a clip that is none', () => doneWith(Buffer.from('<html>no</html>')), 'faulty'],
  ['an empty clip', () => doneWith(Buffer.alloc(0)), 'faulty'],
  ['a webm that is none', () => doneWith(Buffer.concat([EBML, Buffer.alloc(100_000, 7)])), 'faulty'],
  ['a document without a clip', () => Response.json({ status: 'completed', result: null }), 'faulty'],
  ['no base64', () => new Response('{"result":{"b64_json":"%%%%"}}'), 'faulty'],
  ['a document that ends within it', () => new Response('{"result":{"b64_json":"AAAA'), 'faulty'],
])('%s is a failure, and leaves nothing', async (_name, answer, kind) => {
  const { video } = over(answer)
  const work = video.download('job_1', signal, CONNECT_MS).then(wholeOf)
  expect((await providerFailureOf(work)).kind).toBe(kind as ProviderFailure['kind'])
  expect(await leftOver()).toEqual([])
})

test('without ffmpeg the operator is told what is missing', async () => {
  const { video } = over(() => doneWith(EBML), null)
  const failure = await providerFailureOf(video.download('job_1', signal, CONNECT_MS).then(wholeOf))
  expect([failure.kind, failure.message]).toEqual(['misconfigured', expect.stringContaining('ffmpeg')])
})

test('an abort ends the child and leaves nothing', async () => {
  const leaves = new AbortController()
  const never = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(Buffer.from(`{"result":{"b64_json":"${EBML.toString('base64').slice(0, 4)}`))
    },
  })
  const { video } = over(() => new Response(never))
  const work = video.download('job_1', leaves.signal, CONNECT_MS).then(wholeOf)
  await new Promise((resolve) => setImmediate(resolve))
  leaves.abort(new Error('left'))
  expect(String(await providerFailureOf(work))).toContain('left')
  expect(await leftOver()).toEqual([])
})

test('cancelling is harmless when the job has begun, or is gone', async () => {
  let status = 200
  const { server, video } = over(() => Response.json({ error: 'x' }, { status }))
  for (status of [200, 409, 404, 410]) await video.cancel('job_1', signal, CONNECT_MS)
  expect(server.asked.map(({ method, path }) => `${method} ${path}`)[0]).toBe('POST /sdcpp/v1/jobs/job_1/cancel')
})

test('a document of a MiB without a clip, in pieces of one byte, is no job, and takes little time', async () => {
  const server = await rawServer((socket) => {
    socket.write(head('200 OK', 'application/json'))
    socket.write(Buffer.alloc(6 * ((1 << 20) + 1), '1\r\n \r\n'))
  })
  running.push(server)
  const options = { baseUrl: `${server.url}/v1`, apiKey: null, extraHeaders: {}, ffmpeg: null, http, clock }
  const failure = await providerFailureOf(sdcppVideo(options).look('job_1', signal, CONNECT_MS))
  expect(failure).toMatchObject({ kind: 'faulty', message: expect.stringContaining('no job') })
}, 20_000)

test('the beginning of the clip is found wherever the document is cut', () => {
  for (const mark of ['"b64_json":"', '"b64_json": "', '"b64_json"  :\n\t  "', '"b64_json","b64_json":"']) {
    const text = `${' '.repeat(100)}{${mark}AAAA`
    for (let first = 0; first <= text.length; first += 1) {
      for (const second of [first, first + 1, first + 5]) {
        const search = new MediaSearch()
        const pieces = [text.slice(0, first), text.slice(first, second), text.slice(second)]
        const places = pieces.map((piece) => search.startIn(piece))
        const found = places.findIndex((place) => place !== -1)
        expect(pieces.slice(found).join('').slice(places[found])).toBe('AAAA')
      }
    }
  }
})

test('a document whose front is endless, in pieces of one byte, is given up soon', async () => {
  async function* pieces() {
    for (let count = 0; count < 100_000; count += 1) yield Buffer.from('"')
  }
  expect(await providerFailureOf(wholeOf(mediaOf(pieces())))).toMatchObject({ kind: 'faulty' })
}, 10_000)

test.each([1, 2, 3, 5, 7, 64])('base64 in pieces of %d bytes is the same clip', async (length) => {
  const media = Uint8Array.from({ length: 1_000 }, (_, index) => index % 251)
  const text = Buffer.from(await doneWith(media).arrayBuffer())
  async function* pieces() {
    for (let at = 0; at < text.length; at += length) yield text.subarray(at, at + length)
  }
  expect((await wholeOf(mediaOf(pieces()))).equals(media)).toBe(true)
})
