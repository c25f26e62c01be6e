import { beforeEach, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { SILENCE } from '../../test/silence.ts'
import { DEFAULT_ROUTING, type TierRouting } from '../catalog/model.ts'
import { NoRoom, type Upstream, UpstreamFailure } from '../upstream/spec.ts'
import type { ChatTarget } from './attempt.ts'
import { Health } from './health.ts'
import { askWhole } from './whole.ts'

let clock: TurnedClock
let client: AbortController
let attempts: string[]
let health: Health
let asked: string[]
let signals: AbortSignal[]
beforeEach(() => {
  clock = new TurnedClock()
  client = new AbortController()
  attempts = []
  health = new Health(clock, 2)
  asked = []
  signals = []
})

const DEADLINES = { connectMs: 1_000, firstByteMs: 10_000, silenceMs: 5_000, wholeMs: 60_000 }
const target = (name: string): ChatTarget => ({ upstream: { name } as Upstream, model: 'm' })

/** Asks these targets; each does what is said for its name. */
function ask(
  does: Readonly<Record<string, Error | string | 'silence'>>,
  more: { isRepeatable?: boolean; plan?: Partial<TierRouting>; targets?: readonly ChatTarget[] } = {},
) {
  const targets = more.targets ?? Object.keys(does).map(target)
  const send = ({ upstream: { name } }: ChatTarget, signal: AbortSignal): Promise<string> => {
    asked.push(name)
    signals.push(signal)
    const done = does[name]
    if (done === 'silence') return new Promise(() => {})
    return done instanceof Error ? Promise.reject(done) : Promise.resolve(done ?? '')
  }
  return askWhole(targets, send, {
    signal: client.signal,
    deadlines: DEADLINES,
    plan: { ...DEFAULT_ROUTING.serverless, ...more.plan },
    health,
    random: () => 0.5,
    clock,
    log: SILENCE,
    attemptMs: 10_000,
    isRepeatable: more.isRepeatable ?? true,
    metrics: {
      attempt: (name, outcome, elapsedMs) => attempts.push(`${name} ${outcome} ${elapsedMs}`),
      hedged: () => {},
    },
  }).then(
    ({ answer }) => answer,
    (error) => (error instanceof UpstreamFailure ? `${error.kind}!` : String(error)),
  )
}

const away = new UpstreamFailure('unavailable', 'x', { mayFailOver: true })

test('the first that answers answers, and nobody is asked after it', async () => {
  expect(await ask({ a: away, b: 'b', c: 'c' })).toBe('b')
  expect(attempts).toEqual(['a unavailable 0', 'b answered 0'])
  expect(clock.pending).toBe(0)
})

test('a failure that may not go on ends it; where all fail, the last one is told', async () => {
  expect(await ask({ a: new UpstreamFailure('faulty', 'x'), b: 'b' })).toBe('faulty!')
  expect(await ask({ a: new UpstreamFailure('timeout', 'x', { mayFailOver: true }), b: away })).toBe('unavailable!')
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

test('what may not be repeated goes to nobody else after a deadline', async () => {
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

test('a client that leaves cancels it, and nobody else is asked', async () => {
  const answer = ask({ a: 'silence', b: 'b' })
  await clock.turn(10)
  client.abort('left')
  expect(await answer).toBe('left')
  expect(signals[0]?.aborted).toBe(true)
  expect(attempts).toEqual(['a cancelled 10'])
  expect(clock.pending).toBe(0)
  expect(await ask({ a: 'a' })).toBe('left')
})

test('one that is known not to be at work is asked again after a pause, one of which nobody knows is not', async () => {
  const free = new UpstreamFailure('unavailable', 'x', { mayFailOver: true, mayAskAgain: true })
  const answer = ask({ a: free, b: away }, { plan: { retries: 1 } })
  await clock.turn(10_000)
  expect(await answer).toBe('unavailable!')
  expect(asked).toEqual(['a', 'b', 'a'])
})

test('a cold start is waited for, and then the client is told when to come back', async () => {
  const free = new UpstreamFailure('unavailable', 'x', { mayFailOver: true, mayAskAgain: true })
  const answer = ask({ a: free }, { plan: { coldStartMs: 3_000 } })
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
  expect(await ask({ c: 'c', d: 'd' }, { targets: [busy, idle], plan: { choice: 'least_busy' } })).toBe('d')
  expect(asked).toEqual(['c', 'd'])
  client.abort()
  await open
  expect(clock.pending).toBe(0)
})

test('that there is no memory here says nothing of the target, and nobody else is asked', async () => {
  const targets = [target('a'), target('b')]
  for (let call = 0; call < 3; call += 1)
    expect(await ask({ a: new NoRoom(), b: 'b' }, { targets })).toBe('unavailable!')
  expect(asked).toEqual(['a', 'a', 'a'])
  expect(attempts).toEqual(['a cancelled 0', 'a cancelled 0', 'a cancelled 0'])
  expect(await ask({ a: 'a' }, { targets })).toBe('a')
})
