import { beforeEach, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import type { Deadlines } from '../catalog/upstream.ts'
import type { Log } from '../kernel/log.ts'
import {
  type ChatCall,
  type ChatEvent,
  type Upstream,
  UpstreamFailure,
  type UpstreamFailureKind,
} from '../upstream/spec.ts'
import { openChat } from './open.ts'

const DEADLINES: Deadlines = { connectMs: 1_000, firstByteMs: 10_000, silenceMs: 5_000, wholeMs: 60_000 }
const CALL = { messages: [{ role: 'user' as const, content: 'Hi' }], maxTokens: null, temperature: null }

/** What a scripted upstream does next: an event, a failure, silence for good, or a wait on the clock. */
type Step = string | Error | 'silence' | number

let clock: TurnedClock
let logged: string[]
let attempts: string[]
let client: AbortController
beforeEach(() => {
  clock = new TurnedClock()
  logged = []
  attempts = []
  client = new AbortController()
})

const note = (level: string) => (fields: object) => {
  const { upstream, kind } = fields as { upstream: string; kind: string }
  logged.push(`${level} ${upstream} ${kind}`)
}
const log: Log = { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') }
const metrics = {
  attempt: (upstream: string, outcome: string, elapsedMs: number) =>
    attempts.push(`${upstream} ${outcome} ${elapsedMs}`),
}

interface Scripted extends Upstream {
  readonly calls: ChatCall[]
  /** Whether the signal of its last call is aborted. */
  cancelled(): boolean
}

/**
 * An upstream that plays its steps: those before `headers` before `chat` resolves. It pays no heed to its signal: whoever
 * calls must not depend on that.
 */
function scripted(name: string, steps: Step[], connects?: boolean): Scripted {
  const calls: ChatCall[] = []
  let lastSignal: AbortSignal | null = null
  const take = async (): Promise<string | null> => {
    for (let step = steps.shift(); step !== undefined; step = steps.shift()) {
      if (step === 'silence') await new Promise(() => {})
      if (typeof step === 'number') await new Promise<void>((resolve) => clock.after(step as number, resolve))
      if (step instanceof Error) throw step
      if (typeof step === 'string') return step
    }
    return null
  }
  const upstream: Scripted = {
    name,
    calls,
    cancelled: () => lastSignal?.aborted === true,
    async chat(call, signal) {
      calls.push(call)
      lastSignal = signal
      if (steps.includes('headers')) while ((await take()) !== 'headers');
      return events()
    },
  }
  async function* events(): AsyncGenerator<ChatEvent, void> {
    for (let text = await take(); text !== null; text = await take()) yield { kind: 'text', text }
  }
  if (connects === undefined) return upstream
  return { ...upstream, canConnect: () => Promise.resolve(connects) }
}

function fails(kind: UpstreamFailureKind, mayFailOver = false): UpstreamFailure {
  return new UpstreamFailure(kind, 'scripted', mayFailOver)
}

function open(...upstreams: Upstream[]) {
  const targets = upstreams.map((upstream) => ({ upstream, model: `${upstream.name}-model` }))
  return openChat(targets, CALL, { signal: client.signal, deadlines: DEADLINES, clock, log, metrics })
}

/** The text of an answer, with what it ended in when that was a failure. */
async function textOf(opening: ReturnType<typeof open>): Promise<string> {
  let text = ''
  try {
    for await (const event of (await opening).events) text += event.kind === 'text' ? event.text : ''
  } catch (error) {
    return `${text}${error instanceof UpstreamFailure ? `${error.kind}!` : error}`
  }
  return text
}

test('a target is called by its own name of the model, and its answer is passed on', async () => {
  const a = scripted('a', ['x', 'y'])
  expect(await textOf(open(a))).toBe('xy')
  expect(a.calls).toEqual([{ ...CALL, model: 'a-model' }])
  expect(attempts).toEqual(['a answered 0'])
  expect(a.cancelled()).toBe(false)
  expect(clock.pending).toBe(0)
})

test('targets are asked in their order until one begins to answer', async () => {
  const [a, b, c, d] = [
    scripted('a', [fails('unavailable', true), 'headers']),
    scripted('b', ['headers', fails('unavailable', true)]),
    scripted('c', ['c']),
    scripted('d', ['d']),
  ]
  const opened = await open(a, b, c, d)
  expect(opened.target.upstream).toBe(c)
  expect([a, b, c, d].map((upstream) => upstream.calls.length)).toEqual([1, 1, 1, 0])
  expect(logged).toEqual(['warn a unavailable', 'warn b unavailable'])
  opened.cancel()
  expect(clock.pending).toBe(0)
})

test('no target is asked twice in a call', async () => {
  const a = scripted('a', [fails('unavailable', true)])
  expect(await textOf(open(a, a, a))).toBe('unavailable!')
  expect(a.calls).toHaveLength(1)
})

test("after the last target, its class is the call's", async () => {
  expect(await textOf(open(scripted('a', [fails('unavailable', true)]), scripted('b', [fails('faulty')])))).toBe(
    'faulty!',
  )
  expect(await textOf(open())).toBe('unavailable!')
})

const final: UpstreamFailureKind[] = ['faulty', 'misconfigured', 'rejected', 'context_length']
test.each(final)('%s is not tried elsewhere', async (kind) => {
  const b = scripted('b', ['b'])
  expect(await textOf(open(scripted('a', [fails(kind)]), b))).toBe(`${kind}!`)
  expect(b.calls).toHaveLength(0)
  const level = kind === 'misconfigured' ? 'error' : kind === 'faulty' ? 'warn' : 'debug'
  expect(logged).toEqual([`${level} a ${kind}`])
})

test('once an answer has begun no other target is asked', async () => {
  const b = scripted('b', ['b'])
  expect(await textOf(open(scripted('a', ['x', fails('unavailable', true)]), b))).toBe('xunavailable!')
  expect(b.calls).toHaveLength(0)
})

test('an empty answer is faulty', async () => {
  expect(await textOf(open(scripted('a', [])))).toBe('faulty!')
})

test('what a dialect throws by mistake is faulty, and its text is not logged', async () => {
  const opening = open(scripted('a', [new TypeError('canary')]))
  const failure = await opening.catch((error) => error)
  expect(failure).toMatchObject({ kind: 'faulty', message: 'unexpected: TypeError' })
})

test.each([['before the headers'], ['after the headers']])(
  'a target that stalls %s is cancelled at the first-byte deadline, and the next is asked',
  async (when) => {
    const a = scripted('a', when === 'before the headers' ? ['silence', 'headers'] : ['headers', 'silence'])
    const text = textOf(open(a, scripted('b', ['b'])))
    await clock.turn(9_999)
    expect(a.cancelled()).toBe(false)
    await clock.turn(1)
    expect(a.cancelled()).toBe(true)
    expect(await text).toBe('b')
    expect(attempts).toEqual(['a timeout 10000', 'b answered 0'])
    expect(clock.pending).toBe(0)
  },
)

test('a host that takes no connection is given up at the connect deadline', async () => {
  const a = scripted('a', ['silence', 'headers'], false)
  const text = textOf(open(a, scripted('b', ['b'])))
  await clock.turn(1_000)
  expect(await text).toBe('b')
  expect(logged).toEqual(['warn a unavailable'])
  expect(attempts).toEqual(['a unavailable 500', 'b answered 0'])
})

test('a slow server that takes connections has until the first-byte deadline', async () => {
  const text = textOf(open(scripted('a', [9_000, 'headers', 'x'], true)))
  await clock.turn(9_000)
  expect(await text).toBe('x')
})

test('a server that has sent headers is not probed', async () => {
  const text = textOf(open(scripted('a', ['headers', 9_000, 'x'], false)))
  await clock.turn(9_000)
  expect(await text).toBe('x')
})

test('silence between two events ends the answer, and its length is not held against a slow reader', async () => {
  const a = scripted('a', ['x', 4_999, 'y', 5_001, 'z'])
  const { events } = await open(a)
  expect((await events.next()).value).toEqual({ kind: 'text', text: 'x' })
  await clock.turn(20_000)
  const second = events.next()
  await clock.turn(4_999)
  expect((await second).value).toEqual({ kind: 'text', text: 'y' })
  const third = events.next().catch((error) => error)
  await clock.turn(4_999)
  expect(a.cancelled()).toBe(false)
  await clock.turn(1)
  expect(await third).toMatchObject({ kind: 'timeout', mayFailOver: false })
  expect(a.cancelled()).toBe(true)
  expect(clock.pending).toBe(0)
})

test('an answer without end is cut at the whole deadline, also while nobody reads', async () => {
  const a = scripted('a', new Array(1_000).fill(['x', 1_000]).flat())
  const text = textOf(open(a))
  await clock.turn(60_000)
  expect(await text).toMatch(/^x{59,60}timeout!$/)
  expect(a.cancelled()).toBe(true)

  const b = scripted('b', ['x', 'y'])
  const { events } = await open(b)
  await clock.turn(60_000)
  expect(b.cancelled()).toBe(true)
  expect(await events.next().catch((error) => error)).toMatchObject({ kind: 'timeout' })
})

test('the whole deadline bounds all attempts together', async () => {
  const stalled = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((name) => scripted(name, ['silence']))
  const text = textOf(open(...stalled))
  await clock.turn(60_000)
  expect(await text).toBe('timeout!')
  expect(stalled.filter((upstream) => upstream.calls.length > 0)).toHaveLength(6)
})

test.each([
  ['before the headers', ['silence', 'headers']],
  ['before the first event', ['headers', 'silence']],
] as [string, Step[]][])(
  'a client that leaves %s cancels the upstream, and nobody else is asked',
  async (_when, steps) => {
    const a = scripted('a', steps)
    const b = scripted('b', ['b'])
    const text = textOf(open(a, b))
    await clock.turn(10)
    client.abort('left')
    expect(await text).toBe('left')
    expect(a.cancelled()).toBe(true)
    expect(b.calls).toHaveLength(0)
    expect(attempts).toEqual(['a cancelled 10'])
    expect(logged).toEqual([])
    expect(clock.pending).toBe(0)
  },
)

test('a client that leaves in mid-answer cancels the upstream at once', async () => {
  const a = scripted('a', ['x', 'silence'])
  const text = textOf(open(a))
  await clock.turn(10)
  client.abort('left')
  expect(await text).toBe('xleft')
  expect(a.cancelled()).toBe(true)
})

test('a client that has left already reaches no upstream', async () => {
  client.abort('left')
  const a = scripted('a', ['x'])
  expect(await textOf(open(a))).toBe('left')
  expect(a.calls).toHaveLength(0)
})

test('cancel ends the events, also those waited for; after the end it changes nothing', async () => {
  const a = scripted('a', ['x', 'silence'])
  const opened = await open(a)
  await opened.events.next()
  const waiting = opened.events.next()
  opened.cancel()
  opened.cancel()
  expect((await waiting).done).toBe(true)
  expect((await opened.events.next()).done).toBe(true)
  expect(a.cancelled()).toBe(true)
  expect(attempts).toEqual(['a cancelled 0'])
})

test('leaving the events early cancels the upstream', async () => {
  const a = scripted('a', ['x', 'y'])
  for await (const _event of (await open(a)).events) break
  expect(a.cancelled()).toBe(true)
})

test('an answer of many events sets one timer', async () => {
  let timers = 0
  const after = clock.after.bind(clock)
  clock.after = (delayMs, callback) => {
    timers += 1
    return after(delayMs, callback)
  }
  expect(await textOf(open(scripted('a', new Array(200).fill('x'), true)))).toHaveLength(200)
  expect(timers).toBe(1)
})
