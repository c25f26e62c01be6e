import { expect, test } from 'bun:test'
import { testSystem } from '../test/testSystem.ts'
import { runLine } from './run.ts'

const KEY = '07'.repeat(16)
const VIDEO = ['video', 'create', '--model', 'svc/film', '--output', 'a b.mp4', '--', '-a gate']
const INSTANCE = ['instances', 'create', 'server', '--gpu-type', 'a100', '--gpus', '2', '--wait']
const OFFERINGS = { gpu_types: [{ name: 'a100', price_per_hour_microcents: 249_600_000 }], apps: [] }
const MADE = { id: 'v1', status: 'failed', error: 'x', operation_id: 'o1', resource_id: 'i1', state: 'succeeded' }
const VIDEO_AGAIN = `"tollgate video create --model svc/film --output 'a b.mp4' --idempotency-key ${KEY} -- '-a gate'"`
const INSTANCE_AGAIN = `"tollgate instances create server --gpu-type a100 --gpus 2 --price 4.99 --wait --idempotency-key ${KEY}"`

type Answering = (left: AbortSignal) => Promise<Response>

const lost: Answering = () => Promise.reject(Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' }))
const proxy: Answering = async () => new Response('<html>', { status: 502 })
const made: Answering = async () => Response.json(MADE, { status: 202 })
const refuse =
  (status: number, code: string): Answering =>
  async () =>
    Response.json({ error: { code, message: 'The server says why.' } }, { status })

/** Types a line that is answered so, one request to create after the other; the clock is turned until it has ended. */
async function type(words: readonly string[], answers: Answering[], onInterrupt?: (press: () => boolean) => void) {
  const keys: unknown[] = []
  const { system, clock, printed, interrupt } = testSystem({
    checkFiles: async () => {},
    fetch: async (_, { method, headers, signal }) => {
      if (method === 'GET') return Response.json(OFFERINGS)
      keys.push(headers['Idempotency-Key'])
      onInterrupt?.(interrupt)
      return (answers.shift() ?? lost)(signal)
    },
  })
  const running = runLine(words, system)
  let isOver = false
  void running.finally(() => {
    isOver = true
  })
  while (!isOver) await clock.turn(1_000)
  const code = await running
  return { code, keys, said: printed.said }
}

test.each([
  ['a video', VIDEO, lost],
  ['a video', VIDEO, proxy],
  ['an instance', INSTANCE, lost],
  ['an instance', INSTANCE, proxy],
])('%s whose answer was lost is asked for once more, with the same key', async (_, words, first) => {
  const { keys, said } = await type(words, [first, made])
  expect(keys).toEqual([KEY, KEY])
  expect(said).not.toContain('--idempotency-key')
})

test.each([
  [VIDEO, `if the video was accepted, ${VIDEO_AGAIN} finds it within 24 hours`],
  [INSTANCE, `if the instance was rented, ${INSTANCE_AGAIN} finds it within 24 hours`],
])('where the second answer is lost too, the command that finds the same is named: %j', async (words, advice) => {
  for (const second of [lost, proxy, refuse(503, 'upstream_unavailable'), refuse(429, 'rate_limited')]) {
    const { code, keys, said } = await type(words, [lost, second])
    expect({ code, keys }).toEqual({ code: 1, keys: [KEY, KEY] })
    expect(said.toLowerCase()).toContain(advice.toLowerCase())
  }
})

test.each([VIDEO, INSTANCE])('a refusal is said as it is, and not asked for again', async (...words) => {
  const { code, keys, said } = await type(words, [refuse(402, 'quota_exceeded')])
  expect({ code, keys, said }).toEqual({ code: 1, keys: [KEY], said: 'tollgate: The server says why.\n' })
})

test.each([
  [VIDEO, VIDEO_AGAIN],
  [INSTANCE, INSTANCE_AGAIN],
])('Ctrl-C before the answer names it too: %j', async (words, again) => {
  const left: Answering = (signal) =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('left'))))
  const { code, keys, said } = await type(words, [left], (press) => queueMicrotask(press))
  expect({ code, keys }).toEqual({ code: 130, keys: [KEY] })
  expect(said).toContain(again)
})

test('a key that is given is sent, and one that is none is refused before anything is asked', async () => {
  for (const words of [VIDEO, INSTANCE]) {
    const typed = (key: string) => type([...words.slice(0, 2), '--idempotency-key', key, ...words.slice(2)], [made])
    expect((await typed('mine')).keys).toEqual(['mine'])
    expect(await typed('a b')).toMatchObject({ code: 2, keys: [] })
  }
})
