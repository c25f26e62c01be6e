import { expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import type { Log } from '../../lib/log.ts'
import { ProviderFailure } from '../dialect/spec.ts'
import type { ChildReady } from './child.ts'
import { childEnvironment, type Running } from './process.ts'
import { pauseBeforeMs, supervise } from './supervise.ts'

/** A supervisor whose children are moved by hand. */
function supervised() {
  const clock = new TurnedClock()
  const errors: string[] = []
  const log: Log = {
    debug() {},
    info() {},
    warn() {},
    error: (fields, message) => errors.push(`${message}: ${fields['how'] ?? ''}`),
  }
  const children: ReturnType<typeof fakeChild>[] = []
  const launch = () => {
    const child = fakeChild(children.length + 1)
    children.push(child)
    return child
  }
  const engine = supervise({ file: 'm.gguf', bearer: 'b', clock, log, launch })
  return { clock, errors, children, engine }
}

function fakeChild(
  number: number,
): Running & { become(): void; end(how: string): void; stopped: boolean; killed: boolean } {
  const ready = Promise.withResolvers<ChildReady>()
  const exited = Promise.withResolvers<string>()
  return {
    pid: number,
    ready: ready.promise,
    exited: exited.promise,
    stopped: false,
    killed: false,
    stop() {
      this.stopped = true
    },
    kill() {
      this.killed = true
      exited.resolve('it was ended by SIGKILL')
    },
    become: () => ready.resolve({ ready: true, port: 5000 + number, contextTokens: 2048, device: 'cpu' }),
    end: (how) => exited.resolve(how),
  }
}

test('calls that come while the engine loads wait for it', async () => {
  const { clock, children, engine } = supervised()
  const address = engine.address()
  expect([engine.state, engine.current()]).toEqual(['starting', null])
  children[0]?.become()
  expect(await address).toEqual({ baseUrl: 'http://127.0.0.1:5001/v1', bearer: 'b' })
  expect(engine.state).toBe('ready')
  expect(clock.pending).toBe(0)
})

test('a call waits 10 s for a restart, then fails as unavailable and may go elsewhere', async () => {
  const { clock, children, engine } = supervised()
  children[0]?.end('it exited with 1')
  await clock.turn(0)
  const address = engine.address().catch((error: unknown) => error)
  await clock.turn(10_000)
  const failure = (await address) as ProviderFailure
  expect(failure).toBeInstanceOf(ProviderFailure)
  expect([failure.kind, failure.mayFailOver, failure.retryAfterSeconds]).toEqual(['unavailable', true, 1])
})

test('a child that dies is told of loudly and started again', async () => {
  const { clock, errors, children, engine } = supervised()
  children[0]?.become()
  await engine.address()
  children[0]?.end('it was ended by SIGSEGV')
  await clock.turn(0)
  expect([engine.state, engine.current()]).toEqual(['restarting', null])
  expect(errors).toEqual(['the GGUF engine ended and will be started again: it was ended by SIGSEGV'])
  await clock.turn(100)
  children[1]?.become()
  expect((await engine.address()).baseUrl).toBe('http://127.0.0.1:5002/v1')
  expect(engine.pid).toBe(2)
})

test('pauses between restarts grow to 30 s and no further', async () => {
  expect([1, 2, 3, 9, 10, 1000].map(pauseBeforeMs)).toEqual([100, 200, 400, 25_600, 30_000, 30_000])
  const { clock, children } = supervised()
  for (let index = 0; index < 12; index += 1) {
    children[index]?.end('it exited with 1')
    await clock.turn(pauseBeforeMs(index + 1))
  }
  expect(children.length).toBe(13)
})

test('a child that served for a minute was healthy: the next restart comes quickly', async () => {
  const { clock, children } = supervised()
  for (const index of [0, 1, 2]) {
    children[index]?.end('it exited with 1')
    await clock.turn(pauseBeforeMs(index + 1))
  }
  children[3]?.become()
  await clock.turn(60_000)
  children[3]?.end('it exited with 1')
  await clock.turn(100)
  expect(children.length).toBe(5)
})

test('a model that does not load in 10 minutes is killed and tried again', async () => {
  const { clock, children } = supervised()
  await clock.turn(10 * 60_000)
  expect(children[0]?.killed).toBe(true)
  await clock.turn(100)
  expect(children.length).toBe(2)
})

test('closing ends the child, by force where it does not go, and starts no other', async () => {
  const { clock, errors, children, engine } = supervised()
  const waiting = engine.address().catch((error: unknown) => error)
  const closing = engine.close()
  expect(children[0]?.stopped).toBe(true)
  expect(await waiting).toBeInstanceOf(ProviderFailure)
  await clock.turn(1_999)
  expect(children[0]?.killed).toBe(false)
  await clock.turn(1)
  expect(children[0]?.killed).toBe(true)
  await closing
  await clock.turn(60_000)
  expect([children.length, engine.state, clock.pending]).toEqual([1, 'closed', 0])
  expect(errors).toEqual([])
  expect(engine.address()).rejects.toBeInstanceOf(ProviderFailure)
})

test('closing during a pause starts no other', async () => {
  const { clock, children, engine } = supervised()
  children[0]?.end('it exited with 1')
  await clock.turn(0)
  await engine.close()
  await clock.turn(60_000)
  expect([children.length, clock.pending]).toEqual([1, 0])
})

test("the child inherits what drivers need, and none of the gateway's secrets", () => {
  const inherited = childEnvironment({
    PATH: '/bin',
    CUDA_VISIBLE_DEVICES: '0',
    DATABASE_URL: 'postgres://u:p@h/d',
    OPENAI_API_KEY: 'sk',
    HF_TOKEN: 'hf',
    NODE_LLAMA_CPP_GPU: 'cuda',
    LANG: undefined,
  })
  expect(inherited).toEqual({
    PATH: '/bin',
    CUDA_VISIBLE_DEVICES: '0',
    BUN_ENABLE_CRASH_REPORTING: '0',
    DO_NOT_TRACK: '1',
  })
})
