import { afterEach, expect, test } from 'bun:test'
import type { ServerWebSocket } from 'bun'
import { TurnedClock } from '../../../test/clock.ts'
import { progressFrom, takeMessage, watchProgress } from './progress.ts'

const WORKFLOW = {
  '1': { class_type: 'Loader', inputs: {} },
  '2': { class_type: 'Sampler', inputs: { steps: 18 } },
  '3': { class_type: 'Save', inputs: {} },
}

const running: { stop(isHard: boolean): unknown }[] = []
afterEach(() => {
  for (const server of running.splice(0)) void server.stop(true)
})

/** A server that keeps its sockets by the names that they ask for. */
function serve() {
  const sockets = new Map<string, ServerWebSocket<string>>()
  const waiting: (() => void)[] = []
  const changed = () => {
    for (const wake of waiting.splice(0)) wake()
  }
  const server = Bun.serve<string>({
    port: 0,
    hostname: '127.0.0.1',
    fetch(request, own) {
      const url = new URL(request.url)
      const name = `${url.searchParams.get('clientId')} ${request.headers.get('x-team')}`
      return own.upgrade(request, { data: name }) ? undefined : new Response('no', { status: 400 })
    },
    websocket: {
      open(socket) {
        sockets.set(socket.data, socket)
        changed()
      },
      message() {},
      close(socket) {
        sockets.delete(socket.data)
        changed()
      },
    },
  })
  running.push(server)
  const until = async (reached: () => boolean) => {
    while (!reached()) await new Promise<void>((resolve) => waiting.push(resolve))
  }
  return { baseUrl: `http://127.0.0.1:${server.port}`, sockets, until }
}

const state = (jobId: string, nodes: object) =>
  JSON.stringify({ type: 'progress_state', data: { prompt_id: jobId, nodes } })

test('a running job is listened to under its id, while somebody looks', async () => {
  const { baseUrl, sockets, until } = serve()
  const clock = new TurnedClock()
  const watch = watchProgress({ baseUrl, headers: { 'x-team': 'a' }, clock })
  expect(watch.of('job-1', WORKFLOW)).toBeNull()
  await until(() => sockets.has('job-1 a'))
  sockets.get('job-1 a')?.send(state('job-1', { '1': { state: 'finished' }, '2': { value: 9, max: 18 } }))
  while (watch.of('job-1', WORKFLOW) === null) await new Promise((resolve) => setImmediate(resolve))
  expect(watch.of('job-1', WORKFLOW)).toBe(50)
  await clock.turn(59_999)
  expect(watch.of('job-1', WORKFLOW)).toBe(50)
  await clock.turn(59_999)
  expect(sockets.size).toBe(1)
  await clock.turn(1)
  await until(() => sockets.size === 0)
  expect(clock.pending).toBe(0)
})

test('a connection that ends is made again by whoever looks next; one that can not be made is no failure', async () => {
  const { baseUrl, sockets, until } = serve()
  const clock = new TurnedClock()
  const watch = watchProgress({ baseUrl, headers: { 'x-team': 'a' }, clock })
  watch.of('job-1', WORKFLOW)
  await until(() => sockets.size === 1)
  sockets.get('job-1 a')?.close()
  while (clock.pending > 0) await new Promise((resolve) => setImmediate(resolve))
  await until(() => sockets.size === 0)
  expect(watch.of('job-1', WORKFLOW)).toBeNull()
  await until(() => sockets.size === 1)
  const away = watchProgress({ baseUrl: 'http://127.0.0.1:1', headers: {}, clock: new TurnedClock() })
  expect(away.of('job-1', WORKFLOW)).toBeNull()
})

test('no more than a few are listened to', async () => {
  const { baseUrl, sockets, until } = serve()
  const clock = new TurnedClock()
  const watch = watchProgress({ baseUrl, headers: {}, clock })
  for (let job = 0; job < 40; job += 1) watch.of(`job-${job}`, WORKFLOW)
  await until(() => sockets.size === 16)
  expect(clock.pending).toBe(16)
})

test.each([
  ['both kinds of message', ['{"type":"progress","data":{"prompt_id":"j","node":"2","value":6,"max":18}}'], 30],
  [
    'a later one takes the place',
    [state('j', { '2': { value: 1, max: 18 } }), state('j', { '2': { value: 18, max: 18 } })],
    90,
  ],
  [
    'all of it is not yet the end',
    [state('j', { '1': { state: 'finished' }, '2': { state: 'finished' }, '3': { value: 1, max: 1 } })],
    99,
  ],
  ['another job', [state('other', { '2': { value: 9, max: 18 } })], null],
  ['nodes of none of ours', [state('j', { '99': { value: 1, max: 1 } })], 0],
  [
    'what makes no sense',
    [
      '{',
      '[]',
      '{"type":"progress","data":{"prompt_id":"j","node":"2","value":5,"max":0}}',
      state('j', { '2': { value: -1, max: 2 } }),
    ],
    null,
  ],
])('%s', (_name, messages, progress) => {
  const nodes = new Map<string, number>()
  for (const message of messages) takeMessage(message, 'j', nodes)
  expect(progressFrom(WORKFLOW, nodes)).toBe(progress)
})
