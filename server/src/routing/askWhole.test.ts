import { beforeEach, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { SILENCE } from '../../test/silence.ts'
import { DEFAULT_ROUTING, type TierRouting } from '../catalog/model.ts'
import { NoMemoryLeft, type Provider, ProviderFailure, type ProviderTarget } from '../providers/dialect/spec.ts'
import { AbortUntilWritten } from './abortUntilWritten.ts'
import { askWhole } from './askWhole.ts'
import { Health } from './health.ts'

let clock: TurnedClock
let client: AbortController
let attempts: string[]
let health: Health
let asked: string[]
let signals: AbortSignal[]
/** Of each attempt: says that the target has the whole request. */
let written: (() => void)[]
/** Of those that are silent: ends the attempt. */
let fail: ((failure: ProviderFailure) => void)[]
let answerLate: (() => void)[]
let waits: number
beforeEach(() => {
  clock = new TurnedClock()
  client = new AbortController()
  attempts = []
  health = new Health(clock, 2)
  asked = []
  signals = []
  written = []
  fail = []
  answerLate = []
  waits = 0
})

const DEADLINES = { connectMs: 1_000, firstByteMs: 10_000, silenceMs: 5_000, wholeMs: 60_000 }
const target = (name: string): ProviderTarget => ({ provider: { name } as Provider, model: 'm' })

/** Asks these targets; each does what is said for its name. */
function ask(
  does: Readonly<Record<string, Error | string | 'silence'>>,
  more: { isRepeatable?: boolean; routing?: Partial<TierRouting>; targets?: readonly ProviderTarget[] } = {},
) {
  const targets = more.targets ?? Object.keys(does).map(target)
  const send = (
    { provider: { name } }: ProviderTarget,
    signal: AbortSignal,
    _connectMs: number,
    onWritten: () => void,
  ): Promise<string> => {
    asked.push(name)
    signals.push(signal)
    written.push(onWritten)
    const done = does[name]
    if (done === 'silence') {
      return new Promise((resolve, reject) => {
        answerLate.push(() => resolve(name))
        fail.push(reject)
      })
    }
    return done instanceof Error ? Promise.reject(done) : Promise.resolve(done ?? '')
  }
  return askWhole(targets, send, {
    abort: new AbortUntilWritten(client.signal),
    deadlines: DEADLINES,
    routing: { ...DEFAULT_ROUTING.serverless, ...more.routing },
    health,
    random: () => 0.5,
    clock,
    log: SILENCE,
    attemptMs: 10_000,
    isRepeatable: more.isRepeatable ?? true,
    memory: {
      get waits() {
        return waits
      },
    },
    metrics: {
      attempt: (name, outcome, elapsedMs) => attempts.push(`${name} ${outcome} ${elapsedMs}`),
      hedged: () => {},
    },
  }).then(
    ({ answer }) => answer,
    (error) => (error instanceof ProviderFailure ? `${error.kind}!` : String(error)),
  )
}

const away = new ProviderFailure('unavailable', 'x', { mayFailOver: true })

test('the first that answers answers, and nobody is asked after it', async () => {
  expect(await ask({ a: away, b: 'b', c: 'c' })).toBe('b')
  expect(attempts).toEqual(['a unavailable 0', 'b answered 0'])
  expect(clock.pending).toBe(0)
})

test('a failure that may not go on ends it; where all fail, the last one is told', async () => {
  expect(await ask({ a: new ProviderFailure('faulty', 'x'), b: 'b' })).toBe('faulty!')
  expect(await ask({ a: new ProviderFailure('timeout', 'x', { mayFailOver: true }), b: away })).toBe('unavailable!')
  expect(await ask({})).toBe('unavailable!')
})

test('a fault of our own is a faulty answer, and is not quoted', async () => {
  expect(await ask({ a: new TypeError('secret') })).toBe('faulty!')
})

test('one that is silent is cancelled at its deadline; what may be repeated goes to the next', async () => {
  const answer = ask({ a: 'silence', b: 'b' })
  await clock.turn(9_999)
  expect(asked).toEqual(['a'])
  await clock.turn(1)
  expect(await answer).toBe('b')
  expect(signals[0]?.aborted).toBe(true)
  expect(attempts).toEqual(['a timeout 10000', 'b answered 0'])
})

test('a request that may not be repeated goes to nobody else after a deadline', async () => {
  const answer = ask({ a: 'silence', b: 'b' }, { isRepeatable: false })
  await clock.turn(10_000)
  expect(await answer).toBe('timeout!')
  expect(asked).toEqual(['a'])
  expect(clock.pending).toBe(0)
})

test('the deadline of the whole call stands above those of its attempts', async () => {
  const silent = Object.fromEntries([...'abcdefgh'].map((name) => [name, 'silence']))
  const answer = ask(silent)
  for (let turn = 0; turn < 6; turn += 1) await clock.turn(10_000)
  expect(await answer).toBe('timeout!')
  expect(asked).toHaveLength(6)
})

test('a client that leaves before the request was written cancels it, and nobody else is asked', async () => {
  const answer = ask({ a: 'silence', b: 'b' })
  await clock.turn(10)
  client.abort('left')
  expect(await answer).toBe('left')
  expect(signals[0]?.aborted).toBe(true)
  expect(attempts).toEqual(['a cancelled 10'])
  expect(clock.pending).toBe(0)
  expect(await ask({ a: 'a' })).toBe('left')
})

const free = new ProviderFailure('unavailable', 'x', { mayFailOver: true, mayAskAgain: true })

/** Lets everything happen that waits for nothing. */
const settled = () => clock.turn(0)

describe('a client that leaves after the request was written', () => {
  test('changes nothing: the answer is waited for', async () => {
    const answer = ask({ a: 'silence', b: 'b' })
    written[0]?.()
    client.abort('left')
    await clock.turn(10)
    expect(signals[0]?.aborted).toBe(false)
    answerLate[0]?.()
    expect(await answer).toBe('a')
    expect(attempts).toEqual(['a answered 10'])
    expect(clock.pending).toBe(0)
  })

  test('nobody else is asked when the target refuses, and it is not asked again', async () => {
    const answer = ask({ a: 'silence', b: 'b' }, { routing: { retries: 3 } })
    written[0]?.()
    client.abort('left')
    fail[0]?.(free)
    expect(await answer).toBe('left')
    expect(asked).toEqual(['a'])
    expect(attempts).toEqual(['a unavailable 0'])
    expect(clock.pending).toBe(0)
  })

  test('the only target that refuses is not waited for', async () => {
    const answer = ask({ a: 'silence' }, { routing: { retries: 3 } })
    written[0]?.()
    client.abort('left')
    fail[0]?.(free)
    expect(await answer).toBe('left')
    expect(clock.pending).toBe(0)
  })

  test('nobody else is asked when the connection to the target breaks', async () => {
    const answer = ask({ a: 'silence', b: 'b' })
    written[0]?.()
    client.abort('left')
    fail[0]?.(away)
    expect(await answer).toBe('left')
    expect(asked).toEqual(['a'])
  })

  test('deadlines hold, and others are asked after one: the target may still be at work', async () => {
    const answer = ask({ a: 'silence', b: 'silence' })
    written[0]?.()
    client.abort('left')
    await clock.turn(10_000)
    expect(asked).toEqual(['a', 'b'])
    expect(signals[1]?.aborted).toBe(false)
    answerLate[1]?.()
    expect(await answer).toBe('b')
  })

  test('another that refuses after that changes nothing: the first may still be at work', async () => {
    const answer = ask({ a: 'silence', b: 'silence', c: 'silence' })
    written[0]?.()
    await clock.turn(10_000)
    written[1]?.()
    client.abort('left')
    fail[1]?.(free)
    await settled()
    expect(asked).toEqual(['a', 'b', 'c'])
    answerLate[2]?.()
    expect(await answer).toBe('c')
  })
})

test('a client that leaves while another target is asked, the first having refused, cancels the call', async () => {
  const answer = ask({ a: 'silence', b: 'silence' })
  written[0]?.()
  fail[0]?.(free)
  await settled()
  expect(asked).toEqual(['a', 'b'])
  client.abort('left')
  expect(await answer).toBe('left')
  expect(signals[1]?.aborted).toBe(true)
  expect(attempts).toEqual(['a unavailable 0', 'b cancelled 0'])
})

test('one that is known not to be at work is asked again after a pause, one of which nobody knows is not', async () => {
  const answer = ask({ a: free, b: away }, { routing: { retries: 1 } })
  await clock.turn(10_000)
  expect(await answer).toBe('unavailable!')
  expect(asked).toEqual(['a', 'b', 'a'])
})

test('a cold start is waited for, and then the client is told when to come back', async () => {
  const answer = ask({ a: free }, { routing: { coldStartMs: 3_000 } })
  for (let turn = 0; turn < 40; turn += 1) await clock.turn(100)
  expect(await answer).toBe('unavailable!')
  expect(asked.length).toBeGreaterThan(2)
})

test('one that keeps failing is asked behind the others; the least busy is asked first', async () => {
  const [a, b] = [target('a'), target('b')]
  const does = { a: away, b: 'b' }
  await ask(does, { targets: [a, b] })
  await ask(does, { targets: [a, b] })
  await ask(does, { targets: [a, b] })
  expect(asked).toEqual(['a', 'b', 'a', 'b', 'b'])

  asked = []
  const [busy, idle] = [target('c'), target('d')]
  const open = ask({ c: 'silence' }, { targets: [busy] })
  expect(await ask({ c: 'c', d: 'd' }, { targets: [busy, idle], routing: { choice: 'least_busy' } })).toBe('d')
  expect(asked).toEqual(['c', 'd'])
  client.abort()
  await open
  expect(clock.pending).toBe(0)
})

test('that there is no memory here says nothing of the target, and nobody else is asked', async () => {
  const targets = [target('a'), target('b')]
  for (let call = 0; call < 3; call += 1)
    expect(await ask({ a: new NoMemoryLeft(), b: 'b' }, { targets })).toBe('unavailable!')
  expect(asked).toEqual(['a', 'a', 'a'])
  expect(attempts).toEqual(['a cancelled 0', 'a cancelled 0', 'a cancelled 0'])
  expect(await ask({ a: 'a' }, { targets })).toBe('a')
})

test('the deadline of an answer that waited for memory here says nothing of the target, and nobody else is asked', async () => {
  const targets = [target('a'), target('b')]
  for (let call = 0; call < 3; call += 1) {
    const answer = ask({ a: 'silence', b: 'b' }, { targets })
    waits += 1
    await clock.turn(10_000)
    expect(await answer).toBe('unavailable!')
    expect(signals[call]?.aborted).toBe(true)
  }
  expect(attempts).toEqual(['a cancelled 10000', 'a cancelled 10000', 'a cancelled 10000'])
  // A wait of an attempt before excuses nobody.
  const answer = ask({ a: 'silence', b: 'b' }, { targets })
  await clock.turn(10_000)
  expect(await answer).toBe('b')
  expect(attempts.slice(3)).toEqual(['a timeout 10000', 'b answered 0'])
})
