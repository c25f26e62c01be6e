import { beforeEach, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { Secret } from '../kernel/secret.ts'
import { run } from './run.ts'
import type { Surroundings } from './surroundings.ts'

const nothing = () => Promise.reject(new Error('not here'))

let clock: TurnedClock
let out: string
let drawn: string
let asked: string[]
let saved: { path: string; text: string }[]
/** What the server says of the job, one look after the other; the last one stays. */
let looks: object[]
beforeEach(() => {
  clock = new TurnedClock()
  out = ''
  drawn = ''
  asked = []
  saved = []
})

const job = (more: object) => ({
  id: 'v1',
  model: 'svc/film',
  status: 'queued',
  progress: 0,
  seconds: 4,
  cost_cents: null,
  error: null,
  ...more,
})

function answer(url: string, init: RequestInit): Response {
  asked.push(
    `${init.method} ${url.replace('http://gateway.test', '')} ${typeof init.body === 'string' ? init.body : ''}`.trim(),
  )
  if (url.endsWith('/content')) return new Response('the clip')
  const look = looks.length > 1 ? looks.shift() : looks[0]
  return Response.json(look, { status: init.method === 'POST' ? 202 : 200 })
}

async function type(...words: string[]): Promise<number> {
  const surroundings: Surroundings = {
    clock,
    randomBytes: (length) => Buffer.alloc(length, 7),
    stdout: (text) => {
      out += text
    },
    stderr: (text) => {
      drawn += text
    },
    stderrIsTerminal: true,
    openDatabase: nothing,
    loadConfig: nothing,
    dataDirectory: () => '',
    server: () => ({ url: 'http://gateway.test', key: new Secret('svc_live_x') }),
    fetch: async (url, init) => answer(String(url), init ?? {}),
    saveFile: async (path, content) => {
      const text = await new Response(content).text()
      saved.push({ path, text })
      return text.length
    },
    pullModel: nothing,
    serve: nothing,
  }
  const ended = run(['video', 'create', 'A gate', '--model', 'svc/film', ...words], surroundings)
  let isOver = false
  void ended.finally(() => {
    isOver = true
  })
  while (!isOver) await clock.turn(1_000)
  return ended
}

test('without --wait the job is said and left', async () => {
  looks = [job({})]
  expect(await type('--seconds', '4', '--size', '640x360')).toBe(0)
  expect(out).toBe('Video v1 is queued: GET /v1/videos/v1 tells how it goes.\n')
  expect(asked).toEqual(['POST /v1/videos {"model":"svc/film","prompt":"A gate","seconds":4,"size":"640x360"}'])
})

test('with --output it is waited for, with a bar, and saved', async () => {
  looks = [
    job({}),
    job({ status: 'in_progress', progress: 50 }),
    job({ status: 'completed', progress: 100, cost_cents: 20 }),
  ]
  expect(await type('--output', 'clip.mp4')).toBe(0)
  expect(drawn).toContain(`[${'.'.repeat(30)}]   0%  waiting for its turn`)
  expect(drawn).toContain(`[${'#'.repeat(15)}${'.'.repeat(15)}]  50%  being made`)
  expect(out).toBe('Video v1: 4 s, 20 cents. It is in clip.mp4.\n')
  expect(saved).toEqual([{ path: 'clip.mp4', text: 'the clip' }])
  expect(asked.at(-1)).toBe('GET /v1/videos/v1/content')
})

test('as JSON nothing is drawn', async () => {
  looks = [job({}), job({ status: 'completed', cost_cents: 20 })]
  expect(await type('--wait', '--json')).toBe(0)
  expect([drawn, JSON.parse(out).cost_cents]).toEqual(['', 20])
})

test.each([
  [job({ status: 'failed', error: 'content_policy' }), 'failed (content_policy); nothing was charged'],
  [job({ status: 'cancelled' }), 'is cancelled; nothing was charged'],
])('a job that ends otherwise is said, and is no success', async (last, words) => {
  looks = [job({}), last]
  expect(await type('--wait')).toBe(1)
  expect(drawn).toContain(words)
  expect(saved).toEqual([])
})

test('a length that is none is refused before anything is asked', async () => {
  expect(await type('--seconds', 'four')).toBe(2)
  expect([asked, drawn.includes('--seconds')]).toEqual([[], true])
})
