import { expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { RedisConnection } from './connection.ts'
import { openSharedScript } from './sharedScript.ts'

const URL = 'redis://:canary@store:6379'
const operation = (name: string) => ({ key: name, words: [name] })

interface Sent {
  readonly command: string
  readonly words: readonly string[]
  answer(value: unknown): void
  fail(error: unknown): void
}

/** A store that answers when the test says so; probes are answered at once while it is up. */
function open() {
  const clock = new TurnedClock()
  const sent: Sent[] = []
  const logged: string[] = []
  const state = { isUp: true, connections: 0, closed: 0, ready: 0 }
  const note = (fields: object, message: string) =>
    void logged.push(`${message} ${JSON.stringify(fields)} ${'err' in fields ? fields.err : ''}`)
  const log: Log = { debug: note, info: note, warn: note, error: note }
  const connect = (): Promise<RedisConnection> => {
    if (!state.isUp) return Promise.reject(Object.assign(new Error(`no ${URL}`), { code: 'ERR_AWAY' }))
    state.connections += 1
    return Promise.resolve({
      send: (command, words) =>
        new Promise((resolve, reject) => {
          if (command === 'SCRIPT') resolve('hash')
          else if (words[2] === 'probe') resolve([[1]])
          else sent.push({ command, words, answer: resolve, fail: reject })
        }),
      close: () => {
        state.closed += 1
      },
    })
  }
  const store = openSharedScript({
    url: URL,
    script: 'script',
    probe: operation('probe'),
    connect,
    clock,
    log,
    onReady: () => {
      state.ready += 1
    },
  })
  return { clock, sent, logged, state, store }
}

test('until it has answered it counts as away; then each is answered with its own', async () => {
  const { clock, sent, store, state } = open()
  expect(store.run(operation('a'))).toBeNull()
  await clock.turn(0)
  expect([store.isAway, state.ready]).toEqual([false, 1])
  const answers = [store.run(operation('a')), store.run(operation('b'))]
  expect(sent.map(({ words }) => words)).toEqual([
    ['hash', '1', 'a', 'a'],
    ['hash', '1', 'b', 'b'],
  ])
  sent[1]?.answer([[2]])
  sent[0]?.answer([[1]])
  expect(await Promise.all(answers)).toEqual([[1], [2]])
  expect(clock.pending).toBe(0)
})

test('operations that come while two calls are under way go together in the next, so many at most', async () => {
  const { clock, sent, store } = open()
  await clock.turn(0)
  for (let number = 0; number < 302; number += 1) void store.run(operation(`${number}`))
  expect(sent).toHaveLength(2)
  sent[0]?.answer([[0]])
  await clock.turn(0)
  expect(sent).toHaveLength(3)
  expect(sent[2]?.words.slice(0, 3)).toEqual(['hash', '200', '2'])
  sent[1]?.answer([[0]])
  await clock.turn(0)
  expect(sent[3]?.words.slice(0, 3)).toEqual(['hash', '100', '202'])
})

test('a late answer: who waits goes on without it, nobody waits after them, and all that was asked is done in its turn', async () => {
  const { clock, sent, store, state } = open()
  await clock.turn(0)
  // Until it has answered nothing is known of how quick it is.
  const first = store.run(operation('first'))
  sent[0]?.answer([[1]])
  await first
  const waiting = ['a', 'b', 'c'].map((name) => store.run(operation(name)))
  await clock.turn(2)
  // One more look, in case that it was this process that was late.
  await clock.turn(1)
  expect(await Promise.all(waiting)).toEqual([null, null, null])
  expect([store.isAway, store.run(operation('d'))]).toEqual([false, null])
  await clock.turn(100)
  expect(store.run(operation('e'))).toBeNull()
  sent[1]?.answer([[2]])
  await clock.turn(0)
  expect(sent.map(({ words }) => words.slice(2, 5))).toEqual([
    ['first', 'first'],
    ['a', 'a'],
    ['b', 'b'],
    ['c', 'd', 'e'],
  ])
  // It has answered: the next is waited for again.
  const next = store.run(operation('f'))
  for (const each of sent.slice(2)) each.answer(each.words[1] === '3' ? [[3], [4], [5]] : [[3]])
  await clock.turn(0)
  sent.at(-1)?.answer([[6]])
  expect(await next).toEqual([6])
  expect([state.connections, clock.pending]).toEqual([1, 0])
})

test('an answer that came while this process was held up is no late one', async () => {
  const { clock, sent, store } = open()
  await clock.turn(0)
  const first = store.run(operation('first'))
  sent[0]?.answer([[1]])
  await first
  const asked = store.run(operation('a'))
  await clock.turn(2)
  sent[1]?.answer([[2]])
  await clock.turn(1)
  expect(await asked).toEqual([2])
})

test('no answer within 250 ms: its connection is given up, and it is asked in the background', async () => {
  const { clock, sent, store, state, logged } = open()
  await clock.turn(0)
  const waiting = [1, 2, 3].map((number) => store.run(operation(`${number}`)))
  await clock.turn(249)
  expect([await Promise.all(waiting), store.isAway]).toEqual([[null, null, null], false])
  state.isUp = false
  await clock.turn(1)
  expect([store.isAway, store.run(operation('x')), state.closed]).toEqual([true, null, 1])
  await clock.turn(10_000)
  expect(logged).toHaveLength(1)
  state.isUp = true
  await clock.turn(250)
  expect([store.isAway, state.ready, logged.length]).toEqual([false, 2, 2])
  // The first connection's answers are nobody's by now.
  sent[0]?.answer([[7]])
  const again = store.run(operation('again'))
  sent.at(-1)?.answer([[8]])
  expect(await again).toEqual([8])
  expect(logged.join()).not.toContain('canary')
})

const failures: [string, (sent: Sent) => void][] = [
  ['the connection ends', ({ fail }) => fail(new Error(`${URL} closed`))],
  ['the script fails', ({ fail }) => fail(Object.assign(new Error('OOM'), { code: 'ERR_REDIS' }))],
  ['the answer is something else', ({ answer }) => answer('PONG')],
  ['the answer is of another length', ({ answer }) => answer([[1], [2]])],
]
test.each(failures)('%s: away, and back within 250 ms', async (_, happens) => {
  const { clock, sent, store } = open()
  await clock.turn(0)
  const asked = store.run(operation('a'))
  for (const each of sent) happens(each)
  expect(await asked).toBeNull()
  expect(store.isAway).toBe(true)
  await clock.turn(250)
  expect(store.isAway).toBe(false)
})

test('so many may wait and no more', async () => {
  const { clock, store } = open()
  await clock.turn(0)
  for (let number = 0; number < 10_002; number += 1) void store.run(operation('a'))
  expect(store.run(operation('a'))).toBeNull()
})

test('closed, it asks no more, and nothing is left running', async () => {
  const { clock, store, state } = open()
  await clock.turn(0)
  const asked = store.run(operation('a'))
  store.close()
  await clock.turn(50)
  expect([(await asked) === null, store.isAway]).toEqual([true, true])
  await clock.turn(10_000)
  expect([clock.pending, state.connections]).toEqual([0, 1])
})

test("a key with somebody else's value takes nothing from others, and is named in the log once a minute", async () => {
  const { clock, sent, logged, state, store } = open()
  await clock.turn(0)
  const ask = async () => {
    const answers = [store.run(operation('foreign')), store.run(operation('own'))]
    for (const each of sent.splice(0)) each.answer([each.words[2] === 'own' ? [1] : []])
    return await Promise.all(answers)
  }
  for (let time = 0; time < 1_000; time += 1) expect(await ask()).toEqual([null, [1]])
  expect([store.isAway, state.connections, state.ready]).toEqual([false, 1, 1])
  expect(logged).toEqual([
    expect.stringContaining('the key "foreign" in the store of rate limits holds a value of another type'),
  ])
  await clock.turn(60_000)
  await ask()
  expect(logged).toHaveLength(2)
})
