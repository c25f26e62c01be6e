import { beforeEach, expect, test } from 'bun:test'
import { RoutedCall, type Step } from '../../test/routedCall.ts'
import type { CallSignal } from '../lib/callSignal.ts'
import {
  type ChatAnswer,
  type ChatCall,
  type ChatEvent,
  type ChatEvents,
  type Provider,
  ProviderFailure,
} from '../providers/dialect/spec.ts'

const GONE = new Error('gone')

let routed: RoutedCall
beforeEach(() => {
  routed = new RoutedCall()
})

test.each([['before the headers'], ['after the headers']])(
  'a target that stalls %s is cancelled at the first-byte deadline, and the next is asked',
  async (when) => {
    const a = routed.provider('a', when === 'before the headers' ? ['silence', 'headers'] : ['headers', 'silence'])
    const text = routed.text(a, routed.provider('b', ['b']))
    await routed.clock.turn(9_999)
    expect(a.cancelled()).toBe(false)
    await routed.clock.turn(1)
    expect(a.cancelled()).toBe(true)
    expect(await text).toBe('b')
    expect(routed.attempts).toEqual(['a timeout 10000', 'b answered 0'])
    expect(routed.clock.pending).toBe(0)
  },
)

test('the first-byte deadline is met where the sum of instants is rounded', async () => {
  // 9,999.999999999998 ms before the deadline.
  await routed.clock.turn(10_425.000_000_000_002)
  const text = routed.text(routed.provider('a', ['silence']))
  await routed.clock.turn(10_000)
  expect(await text).toBe('timeout!')
})

test('a target is told how long a connection may take, and one that has none is passed over', async () => {
  const a = routed.provider('a', [new ProviderFailure('unavailable', 'no connection', { mayFailOver: true })])
  expect(await routed.text(a, routed.provider('b', ['b']))).toBe('b')
  expect(a.connectMs()).toBe(1_000)
  expect(routed.attempts).toEqual(['a unavailable 0', 'b answered 0'])
})

test('silence between two events ends the answer, and its length is not held against a slow reader', async () => {
  const a = routed.provider('a', ['x', 4_999, 'y', 5_001, 'z'])
  const { events } = await routed.open(a)
  expect((await events.next()).value).toEqual({ kind: 'text', text: 'x' })
  await routed.clock.turn(20_000)
  const second = events.next()
  await routed.clock.turn(4_999)
  expect((await second).value).toEqual({ kind: 'text', text: 'y' })
  const third = events.next().catch((error) => error)
  await routed.clock.turn(4_999)
  expect(a.cancelled()).toBe(false)
  await routed.clock.turn(1)
  expect(await third).toMatchObject({ kind: 'timeout', mayFailOver: false })
  expect(a.cancelled()).toBe(true)
})

test('an answer without end is cut at the whole deadline, also while nobody reads', async () => {
  const a = routed.provider('a', new Array(1_000).fill(['x', 1_000]).flat())
  const text = routed.text(a)
  await routed.clock.turn(60_000)
  expect(await text).toMatch(/^x{59,60}timeout!$/)
  expect(a.cancelled()).toBe(true)

  const b = routed.provider('b', ['x', 'y'])
  const { events } = await routed.open(b)
  await routed.clock.turn(60_000)
  expect(b.cancelled()).toBe(true)
  expect(await events.next().catch((error) => error)).toMatchObject({
    kind: 'timeout',
    publicMessage: expect.stringContaining('Read it faster'),
  })
  // Its own client was behind: no business of the provider's or the operator's.
  expect(routed.attempts).toEqual(['a timeout 60000', 'b cancelled 60000'])
  expect(routed.logged).toEqual(['warn a timeout', 'debug b timeout'])
})

test('the whole deadline bounds all attempts together', async () => {
  const stalled = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((name) => routed.provider(name, ['silence']))
  const text = routed.text(...stalled)
  await routed.clock.turn(60_000)
  expect(await text).toBe('timeout!')
  expect(stalled.filter((provider) => provider.calls.length > 0)).toHaveLength(6)
})

test.each([
  ['before the headers', ['silence', 'headers']],
  ['before the first event', ['headers', 'silence']],
] as [string, Step[]][])(
  'a client that leaves %s cancels the provider, and nobody else is asked',
  async (_when, steps) => {
    const a = routed.provider('a', steps)
    const b = routed.provider('b', ['b'])
    const text = routed.text(a, b)
    await routed.clock.turn(10)
    routed.client.abort('left')
    expect(await text).toBe('left')
    expect(a.cancelled()).toBe(true)
    expect(b.calls).toHaveLength(0)
    expect(routed.attempts).toEqual(['a cancelled 10'])
    expect(routed.logged).toEqual([])
    expect(routed.clock.pending).toBe(0)
  },
)

test('a client that leaves in mid-answer cancels the provider at once', async () => {
  const a = routed.provider('a', ['x', 'silence'])
  const text = routed.text(a)
  await routed.clock.turn(10)
  routed.client.abort('left')
  expect(await text).toBe('xleft')
  expect(a.cancelled()).toBe(true)
})

test('a client that has left already reaches no provider', async () => {
  routed.client.abort('left')
  const a = routed.provider('a', ['x'])
  expect(await routed.text(a)).toBe('left')
  expect(a.calls).toHaveLength(0)
})

test('cancel ends the events, also those waited for; after the end it changes nothing', async () => {
  const a = routed.provider('a', ['x', 'silence'])
  const opened = await routed.open(a)
  await opened.events.next()
  const waiting = opened.events.next()
  opened.cancel()
  opened.cancel()
  expect((await waiting).done).toBe(true)
  expect((await opened.events.next()).done).toBe(true)
  expect(a.cancelled()).toBe(true)
  expect(routed.attempts).toEqual(['a cancelled 0'])
})

test('leaving the events early cancels the provider', async () => {
  const a = routed.provider('a', ['x', 'y'])
  for await (const _event of (await routed.open(a)).events) break
  expect(a.cancelled()).toBe(true)
})

test('an answer of many events sets one timer', async () => {
  let timers = 0
  const after = routed.clock.after.bind(routed.clock)
  routed.clock.after = (delayMs, callback) => {
    timers += 1
    return after(delayMs, callback)
  }
  expect(await routed.text(routed.provider('a', new Array(200).fill('x')))).toHaveLength(200)
  expect(timers).toBe(1)
})

/** A provider whose events a test brings, as bytes that lie in a socket come with a later turn of the event loop. */
class Brought implements Provider {
  readonly name = 'a'
  isStopped = false
  private readonly queue: ChatEvent[] = []
  private reading: ((next: IteratorResult<ChatEvent, unknown>) => void) | null = null

  chat(_call: ChatCall, signal: CallSignal): Promise<ChatAnswer> {
    signal.addEventListener('abort', () => {
      this.isStopped = true
    })
    return Promise.resolve({ [Symbol.asyncIterator]: () => this.events })
  }

  bring(text: string): void {
    const value = { kind: 'text' as const, text }
    if (this.reading === null) this.queue.push(value)
    else this.reading({ done: false, value })
    this.reading = null
  }

  private readonly events: ChatEvents = {
    next: () => {
      const value = this.queue.shift()
      if (value !== undefined) return Promise.resolve({ done: false, value })
      return new Promise((resolve) => {
        this.reading = resolve
      })
    },
    ready: () => this.queue.shift(),
    whenReady: () => this.queue.length === 0,
  }
}

test.each([['a promise'], ['a callback']])(
  'what lay in the socket when the client left is there to be charged, while %s waits for more',
  async (what) => {
    const provider = new Brought()
    provider.bring('read')
    const { events } = await routed.open(provider)
    expect((await events.next()).value).toEqual({ kind: 'text', text: 'read' })
    let told: unknown = null
    const tell = (reason: unknown) => {
      told = reason
    }
    if (what === 'a promise') events.next().catch(tell)
    else expect(events.whenReady?.(() => tell(GONE))).toBe(true)
    routed.client.abort(GONE)
    const left = events.left?.()
    await Promise.resolve()
    expect([told, provider.isStopped]).toEqual([GONE, false])
    for (const text of ['one', 'two', 'three']) {
      provider.bring(text)
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(provider.isStopped).toBe(false)
    expect(await left).toEqual(['one', 'two', 'three'].map((text) => ({ kind: 'text', text })))
    await Promise.resolve()
    expect(provider.isStopped).toBe(true)
  },
)

/** A provider whose first event is here; the next ones are waited for without promises, and never come. */
function silentAfter(text: string) {
  const events = {
    given: false,
    next: () => {
      if (events.given) return new Promise<never>(() => {})
      events.given = true
      return Promise.resolve({ done: false as const, value: { kind: 'text' as const, text } })
    },
    ready: () => undefined,
    whenReady: () => true,
  }
  const answer = { [Symbol.asyncIterator]: () => events }
  return { name: 'a', chat: () => Promise.resolve(answer) }
}

test.each([
  ['the silence deadline', () => routed.clock.turn(5_000), 'timeout'],
  ['a hang-up', () => Promise.resolve(routed.client.abort(new Error('gone'))), 'gone'],
])('who waits without a promise is called by %s, and reads why', async (_name, end, why) => {
  const { events } = await routed.open(silentAfter('x'))
  expect(events.ready?.()).toEqual({ kind: 'text', text: 'x' })
  // A slow reader is not the provider's silence.
  await routed.clock.turn(20_000)
  let called = 0
  const count = () => {
    called += 1
  }
  const wait = () => events.whenReady?.(count)
  expect(wait()).toBe(true)
  await routed.clock.turn(4_999)
  expect(called).toBe(0)
  await end()
  expect([called, events.ready?.(), wait()]).toEqual([1, undefined, false])
  const error = await events.next().catch((thrown) => thrown)
  expect(error.kind ?? error.message).toBe(why)
  expect(routed.clock.pending).toBe(0)
})
