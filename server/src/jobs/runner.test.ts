import { afterEach, beforeEach, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { SILENCE } from '../../test/silence.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { JobOutcome } from './carryOut.ts'
import { createRunner, type Runner, type RunnerOptions, type Source } from './runner.ts'

/** An item that is in work until the test ends it. */
interface Item {
  readonly id: string
  end(outcome: JobOutcome | Error): void
  readonly ended: Promise<JobOutcome>
}

let clock: TurnedClock
let told: string[]
let due: string[]
let begun: Map<string, Item>
let runner: Runner
beforeEach(() => {
  clock = new TurnedClock()
  told = []
  due = []
  begun = new Map()
})
afterEach(async () => {
  for (const { end } of begun.values()) end('succeeded')
  await runner.close()
  // Nothing is left behind, a lease that is renewed for ever least of all.
  expect(clock.pending).toBe(0)
})

const settled = () => clock.turn(0)

function itemOf(id: string): Item {
  const { promise, resolve, reject } = Promise.withResolvers<JobOutcome>()
  return { id, ended: promise, end: (outcome) => (outcome instanceof Error ? reject(outcome) : resolve(outcome)) }
}

/** Claims what is in `due`, at most two at once. */
function source(more: Partial<Source<Item>> = {}): Source<Item> {
  return {
    kind: 'test',
    atOnce: 2,
    async claim({ room, begin }) {
      const ids = due.splice(0, room)
      for (const id of ids) {
        const item = itemOf(id)
        begun.set(id, item)
        begin(item)
      }
      return due.length > 0
    },
    work: ({ ended }, signal) => {
      const aborted = new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      })
      return Promise.race([ended, aborted])
    },
    ...more,
  }
}

function run(more: Partial<RunnerOptions<Item>> = {}): void {
  runner = createRunner<Item>({
    clock,
    log: SILENCE,
    name: 'tests',
    pollMs: SECOND_MS,
    patienceMs: 5 * SECOND_MS,
    abortedPatienceMs: SECOND_MS,
    sources: [source()],
    idOf: ({ id }) => id,
    metrics: {
      jobsClaimed: (kind, count) => told.push(`${kind} claimed ${count}`),
      jobEnded: (kind, outcome) => told.push(`${kind} ${outcome}`),
    },
    ...more,
  })
  runner.start()
}

const names = () => [...begun.keys()]

test('no more items than the bound are in work, and the end of one makes room at once', async () => {
  due = ['a', 'b', 'c', 'd']
  run()
  await settled()
  expect(names()).toEqual(['a', 'b'])
  expect(runner.inWork()).toEqual(new Map([['test', 2]]))
  begun.get('a')?.end('succeeded')
  await settled()
  expect(names()).toEqual(['a', 'b', 'c'])
  begun.get('b')?.end('dead')
  begun.get('c')?.end('failed')
  await settled()
  expect(told).toEqual([
    'test claimed 2',
    'test succeeded',
    'test claimed 1',
    'test dead',
    'test failed',
    'test claimed 1',
  ])
})

test('after a look that found something the next comes sooner', async () => {
  run({ busyPollMs: SECOND_MS / 10 })
  await settled()
  due = ['a']
  await clock.turn(SECOND_MS / 10)
  expect(names()).toEqual([])
  await clock.turn((9 * SECOND_MS) / 10)
  expect(names()).toEqual(['a'])
  due = ['b']
  await clock.turn(SECOND_MS / 10)
  expect(names()).toEqual(['a', 'b'])
  // Its end makes room: the look that follows finds nothing.
  begun.get('a')?.end('succeeded')
  await settled()
  due = ['c']
  await clock.turn(SECOND_MS / 10)
  expect(names()).toEqual(['a', 'b'])
  await clock.turn((9 * SECOND_MS) / 10)
  expect(names()).toEqual(['a', 'b', 'c'])
})

test('an item that becomes due is found by the next poll, and at once when the runner is woken', async () => {
  run()
  await settled()
  due = ['a']
  await clock.turn(SECOND_MS - 1)
  expect(names()).toEqual([])
  await clock.turn(1)
  expect(names()).toEqual(['a'])
  due = ['b']
  runner.wake()
  await settled()
  expect(names()).toEqual(['a', 'b'])
})

test('looks never overlap, and whoever wakes the runner during one is served by another', async () => {
  let open = 0
  let looks = 0
  let release = () => {}
  const claim = async () => {
    looks += 1
    open += 1
    expect(open).toBe(1)
    await new Promise<void>((resolve) => {
      release = resolve
    })
    open -= 1
    return false
  }
  run({ sources: [source({ claim })] })
  await settled()
  const running = runner.run()
  runner.wake()
  runner.wake()
  await clock.turn(10 * SECOND_MS)
  expect(looks).toBe(1)
  release()
  await settled()
  expect(looks).toBe(2)
  release()
  await running
  await settled()
  expect(looks).toBe(3)
  release()
  await settled()
  expect(looks).toBe(3)
})

test('a database that is away is asked less and less often, up to every five seconds, and by the period when it is back', async () => {
  const looks: number[] = []
  let isAway = true
  const claim = async () => {
    looks.push(clock.monotonicMs() / SECOND_MS)
    if (isAway) throw new Error('away')
    return false
  }
  run({ sources: [source({ claim })] })
  await clock.turn(17 * SECOND_MS)
  expect(looks).toEqual([0, 2, 6, 11, 16])
  isAway = false
  await clock.turn(6 * SECOND_MS)
  expect(looks).toEqual([0, 2, 6, 11, 16, 21, 22, 23])
})

test('a kind that cannot be claimed keeps no other waiting', async () => {
  due = ['a']
  const broken = source({ kind: 'broken', claim: () => Promise.reject(new Error('broken')) })
  run({ sources: [broken, source()] })
  await settled()
  expect(names()).toEqual(['a'])
})

test('a look that is to be skipped claims nothing', async () => {
  due = ['a']
  let prepared: 'skip' | 'ready' = 'skip'
  run({ prepare: async () => prepared })
  await clock.turn(2 * SECOND_MS)
  expect(names()).toEqual([])
  prepared = 'ready'
  await clock.turn(SECOND_MS)
  expect(names()).toEqual(['a'])
})

test('a lease is renewed while an item is in work, and its loss ends the work', async () => {
  due = ['a']
  const renewals: (boolean | Error)[] = [true, new Error('away'), false]
  let renewed = 0
  const renew = async () => {
    const renewal = renewals[renewed++] ?? false
    if (renewal instanceof Error) throw renewal
    return renewal
  }
  run({ lease: { renewMs: 10 * SECOND_MS, renew, giveBack: () => Promise.reject(new Error('it is not ours')) } })
  await clock.turn(29 * SECOND_MS)
  expect([renewed, told]).toEqual([2, ['test claimed 1']])
  await clock.turn(SECOND_MS)
  expect([renewed, told]).toEqual([3, ['test claimed 1', 'test lost']])
  await clock.turn(60 * SECOND_MS)
  expect(renewed).toBe(3)
})

test('work that breaks off has failed, and the runner goes on', async () => {
  due = ['a']
  run()
  await settled()
  begun.get('a')?.end(new Error('a bug'))
  due = ['b']
  await clock.turn(SECOND_MS)
  expect(told).toEqual(['test claimed 1', 'test failed', 'test claimed 1'])
})

test('a close claims nothing more, waits for its patience, then ends what is in work and gives it back', async () => {
  due = ['a', 'b', 'c']
  const givenBack: string[] = []
  const giveBack = async ({ id }: Item) => void givenBack.push(id)
  run({ lease: { renewMs: SECOND_MS, renew: async () => true, giveBack } })
  await settled()
  let isClosed = false
  const closing = runner.close().then(() => {
    isClosed = true
  })
  begun.get('a')?.end('succeeded')
  await clock.turn(5 * SECOND_MS - 1)
  expect([isClosed, givenBack, names()]).toEqual([false, [], ['a', 'b']])
  await clock.turn(1)
  await closing
  expect([givenBack, told.slice(1)]).toEqual([['b'], ['test succeeded', 'test stopped']])
})

test('an item is given back only when no renewal of its lease is under way', async () => {
  const order: string[] = []
  let endRenewal = () => {}
  const renew = async () => {
    order.push('renewing')
    await new Promise<void>((resolve) => {
      endRenewal = resolve
    })
    order.push('renewed')
    return true
  }
  const giveBack = async () => void order.push('given back')
  due = ['a']
  run({ patienceMs: SECOND_MS, lease: { renewMs: SECOND_MS, renew, giveBack } })
  await settled()
  const closing = runner.close()
  await clock.turn(SECOND_MS)
  expect(order).toEqual(['renewing'])
  endRenewal()
  await closing
  expect(order).toEqual(['renewing', 'renewed', 'given back'])
})

test('a close does not wait for work that takes no notice of its signal', async () => {
  due = ['a']
  run({ sources: [source({ work: ({ ended }) => ended })] })
  await settled()
  const closing = runner.close()
  await clock.turn(6 * SECOND_MS)
  await closing
  expect(told).toEqual(['test claimed 1'])
})

test('items that a look under way claims at the time of a close are ended too', async () => {
  let release = () => {}
  const claim: Source<Item>['claim'] = async ({ begin }) => {
    await new Promise<void>((resolve) => {
      release = resolve
    })
    const item = itemOf('late')
    begun.set('late', item)
    begin(item)
    return true
  }
  run({ sources: [source({ claim })] })
  await settled()
  const closing = runner.close()
  release()
  await clock.turn(5 * SECOND_MS)
  await closing
  expect(told).toEqual(['test claimed 1', 'test stopped'])
})
