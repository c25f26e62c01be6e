/** `tollgate listen` when the server refuses, is away, or forgets; listen.long.test.ts has it on real processes. */

import { beforeEach, expect, test } from 'bun:test'
import { testSystem } from '../../test/testSystem.ts'
import { runLine } from '../run.ts'

const ENDING = () => refusal(401, 'The key is gone.')

let elapsedMs: number
let out: string
let said: string
/** The server's answers to each connection, one after the other; at last it refuses the key. */
let answers: (() => Response)[]
/** The Last-Event-ID of each connection. */
let asked: (string | null)[]
let forwarded: string[]
beforeEach(() => {
  out = ''
  said = ''
  asked = []
  forwarded = []
})

const refusal = (status: number, detail: string) => Response.json({ detail }, { status })

const event = (id: string) => `id: ${id}\nevent: video.completed\ndata: {"id":"${id}"}\n\n`

/** A stream that sends so much and then breaks off, ends, or says nothing more. */
function stream(text: string, then: 'breaks' | 'ends' | 'is silent' = 'ends'): Response {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(text))
      if (then === 'ends') controller.close()
    },
    pull(controller) {
      if (then === 'breaks') controller.error(new Error('reset'))
    },
  })
  return new Response(body, { headers: { 'Svc-Stream-Start': 'start-1:1:' } })
}

function answer(url: string, init: RequestInit): Response {
  if (url.startsWith('http://receiver.test')) {
    forwarded.push(JSON.parse(String(init.body)).id)
    return new Response(null, { status: 204 })
  }
  asked.push(new Headers(init.headers).get('Last-Event-ID'))
  const given = (answers.shift() ?? ENDING)()
  // As the network does: what is aborted breaks.
  const { signal } = init
  if (given.body === null || !given.ok || signal === null || signal === undefined) return given
  const reader = given.body.getReader()
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => signal.addEventListener('abort', () => controller.error(new Error('aborted'))),
    async pull(controller) {
      const { done, value } = await reader.read()
      if (done) controller.close()
      else controller.enqueue(value)
    },
  })
  return new Response(body, { headers: given.headers })
}

async function listen(...more: string[]): Promise<number> {
  const { system, clock, printed } = testSystem({ fetch: async (url, init) => answer(String(url), init ?? {}) })
  const ended = runLine(['listen', '--forward-to', 'http://receiver.test/hooks', ...more], system)
  let isOver = false
  void ended.finally(() => {
    isOver = true
  })
  while (!isOver) await clock.turn(1_000)
  out = printed.out
  said = printed.said
  elapsedMs = clock.monotonicMs()
  return ended
}

const away = () => {
  throw new Error('refused')
}

test('it comes back behind the last event, or behind the start of its first stream, and says once that it was away', async () => {
  answers = [() => stream(': listening\n\n', 'breaks'), away, away, () => stream(event('e1') + event('e2'))]
  expect(await listen()).toBe(4)
  expect(asked).toEqual([null, 'start-1:1:', 'start-1:1:', 'start-1:1:', 'e2'])
  expect(forwarded).toEqual(['e1', 'e2'])
  expect(said.split('\n')).toEqual([
    'tollgate: the connection to http://gateway.test is lost; trying again',
    'tollgate: listening again',
    'tollgate: the connection to http://gateway.test is lost; trying again',
    'tollgate: The key is gone. The key is from TOLLGATE_API_KEY: set another there, or unset it and log in with "tollgate login".',
    '',
  ])
})

test('a stream that is silent for 45 seconds is dead', async () => {
  answers = [() => stream(event('e1'), 'is silent')]
  expect(await listen()).toBe(4)
  expect(asked).toEqual([null, 'e1'])
  expect(elapsedMs).toBeGreaterThanOrEqual(46_000)
})

test('a last event that the server no longer has is given up, and said', async () => {
  answers = [() => stream(event('e1')), () => refusal(422, 'unknown'), () => stream(event('e9'))]
  expect(await listen()).toBe(4)
  expect(asked).toEqual([null, 'e1', null, 'e9'])
  expect(said).toContain('the server no longer has the last event: events since then are not forwarded\n')
})

test('a server that is not ready yet is waited for, one that is not there is not', async () => {
  answers = [() => refusal(503, 'The database is away.'), () => stream('')]
  expect(await listen()).toBe(4)
  expect(said).toStartWith('tollgate: The database is away; trying again\n')
  expect(out).toContain('signed with this secret')
  answers = [away]
  said = ''
  expect(await listen()).toBe(1)
  expect(said).toStartWith("tollgate: http://gateway.test can't be reached")
})

test('as JSON all of it is lines on stdout, and the end is on stderr', async () => {
  answers = [() => stream(event('e1')), away, () => stream('')]
  expect(await listen('--json')).toBe(4)
  const lines = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines).toMatchObject([
    { listening: true, secret: expect.stringMatching(/^[0-9a-f]{64}$/) },
    { id: 'e1', type: 'video.completed', status: 204, failure: null },
    { listening: false, reason: expect.any(String) },
    { listening: true },
    { listening: false },
  ])
  expect(JSON.parse(said).error.message).toBe(
    'The key is gone. The key is from TOLLGATE_API_KEY: set another there, or unset it and log in with "tollgate login".',
  )
})
