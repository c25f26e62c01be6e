import { beforeEach, describe, expect, test } from 'bun:test'
import { fc } from '../../test/properties.ts'
import { RoutedCall, type Step } from '../../test/routedCall.ts'
import { DEFAULT_ROUTING } from '../catalog/model.ts'
import { ProviderFailure, type ProviderFailureKind } from '../providers/dialect/spec.ts'

let routed: RoutedCall
beforeEach(() => {
  routed = new RoutedCall()
})

/** Not reached, or answered that it can't take the call now. */
const away = (retryAfterSeconds: number | null = null) =>
  new ProviderFailure('unavailable', 'scripted', { mayFailOver: true, retryAfterSeconds, mayAskAgain: true })
/** Bytes were sent, and the connection ended. */
const unknown = () => new ProviderFailure('unavailable', 'scripted', { mayFailOver: true })
const plain = DEFAULT_ROUTING.serverless

describe('retries', () => {
  test('all targets that are known not to work on the call are asked again after a while', async () => {
    routed.routing = { ...plain, retries: 2 }
    const [a, b] = [routed.provider('a', [away(), away(), 'a']), routed.provider('b', [unknown()])]
    const text = routed.text(a, b)
    await routed.clock.turn(0)
    expect([a.calls.length, b.calls.length]).toEqual([1, 1])
    await routed.clock.turn(187)
    expect(a.calls).toHaveLength(1)
    await routed.clock.turn(1)
    expect(a.calls).toHaveLength(2)
    await routed.clock.turn(375)
    expect(await text).toBe('a')
    // Where nobody knows what became of the call, it is not sent once more.
    expect([a.calls.length, b.calls.length]).toEqual([3, 1])
    expect(routed.clock.pending).toBe(0)
  })

  test('as often as the tier says, no sooner than the provider asked for, and never beyond the whole deadline', async () => {
    routed.routing = { ...plain, retries: 1 }
    const a = routed.provider('a', [away(7), away(), 'a'])
    const text = routed.text(a)
    await routed.clock.turn(6_999)
    expect(a.calls).toHaveLength(1)
    await routed.clock.turn(1)
    expect(await text).toBe('unavailable!')
    expect(a.calls).toHaveLength(2)
    expect(await routed.text(routed.provider('b', [away(60), 'b']))).toBe('unavailable!')
  })

  test('a target that asked for a long wait does not hold up the others', async () => {
    routed.routing = { ...plain, retries: 1 }
    const [a, b] = [routed.provider('a', [away(60), 'a']), routed.provider('b', [away(), 'b'])]
    const text = routed.text(a, b)
    await routed.clock.turn(188)
    expect(await text).toBe('b')
    expect(a.calls).toHaveLength(1)
  })

  test('a client that leaves meanwhile is let go at once', async () => {
    routed.routing = { ...plain, retries: 1 }
    const a = routed.provider('a', [away(), 'a'])
    const text = routed.text(a)
    await routed.clock.turn(10)
    routed.client.abort('left')
    expect(await text).toBe('left')
    expect([a.calls.length, routed.clock.pending]).toEqual([1, 0])
  })
})

describe('cold start', () => {
  beforeEach(() => {
    routed.routing = DEFAULT_ROUTING.economy
  })

  test('a call waits for a server that is being started', async () => {
    const steps: Step[] = [...Array.from({ length: 8 }, () => away()), 'warm']
    const text = routed.text(routed.provider('a', steps))
    await routed.clock.turn(30_000)
    expect(await text).toBe('warm')
  })

  test('for a minute at most; then 503, with the time to come back', async () => {
    const a = routed.provider(
      'a',
      Array.from({ length: 100 }, () => away()),
    )
    const failing = routed.open(a).catch((error) => error)
    await routed.clock.turn(59_999)
    expect(await failing).toMatchObject({ kind: 'unavailable', retryAfterSeconds: 30 })
    expect(a.calls.length).toBeWithin(10, 25)
    expect(routed.clock.pending).toBe(0)
  })

  test('not for one that was sent the call and did not answer', async () => {
    expect(await routed.text(routed.provider('a', [unknown(), 'a']))).toBe('unavailable!')
  })
})

describe('hedging', () => {
  beforeEach(() => {
    routed.routing = { ...plain, hedgeAfterMs: 500 }
  })

  test('a second target is asked beside one that is silent; the first to answer is taken, the other cancelled', async () => {
    const [a, b, c] = [
      routed.provider('a', [2_000, 'a']),
      routed.provider('b', [100, 'b']),
      routed.provider('c', ['c']),
    ]
    const text = routed.text(a, b, c)
    await routed.clock.turn(499)
    expect(b.calls).toHaveLength(0)
    await routed.clock.turn(5_000)
    expect(await text).toBe('b')
    expect([a.cancelled(), b.cancelled(), c.calls.length]).toEqual([true, false, 0])
    expect(routed.attempts).toEqual(['b hedges', 'a cancelled 600', 'b answered 100'])
  })

  test('the first one may still be quicker', async () => {
    const [a, b] = [routed.provider('a', [600, 'a']), routed.provider('b', [2_000, 'b'])]
    const text = routed.text(a, b)
    await routed.clock.turn(5_000)
    expect(await text).toBe('a')
    expect(b.cancelled()).toBe(true)
  })

  test('one that fails leaves the call to the other', async () => {
    const [a, b] = [routed.provider('a', [600, unknown()]), routed.provider('b', [2_000, 'b'])]
    const text = routed.text(a, b)
    await routed.clock.turn(5_000)
    expect(await text).toBe('b')
  })

  const final = (kind: ProviderFailureKind) => new ProviderFailure(kind, 'scripted')

  test('a second one that fails for good leaves the call to the first, and the operator hears of it', async () => {
    const [a, b, c] = [
      routed.provider('a', [600, 'a']),
      routed.provider('b', [final('misconfigured')]),
      routed.provider('c', ['c']),
    ]
    const text = routed.text(a, b, c)
    await routed.clock.turn(5_000)
    expect(await text).toBe('a')
    expect([a.cancelled(), c.calls.length]).toEqual([false, 0])
    expect(routed.attempts).toEqual(['b hedges', 'b misconfigured 0', 'a answered 600'])
    expect(routed.logged).toEqual(['error b misconfigured'])
    expect(routed.clock.pending).toBe(0)
  })

  test('a first one that fails for good leaves the call to the second', async () => {
    const [a, b, c] = [
      routed.provider('a', [600, final('faulty')]),
      routed.provider('b', [1_000, 'b']),
      routed.provider('c', ['c']),
    ]
    const text = routed.text(a, b, c)
    await routed.clock.turn(5_000)
    expect(await text).toBe('b')
    expect([b.cancelled(), c.calls.length]).toEqual([false, 0])
    expect(routed.attempts).toEqual(['b hedges', 'a faulty 600', 'b answered 1000'])
  })

  const bothFail: [string, ProviderFailure, ProviderFailure, string][] = [
    ['the one that finds fault with the request', final('rejected'), final('misconfigured'), 'rejected!'],
    ['the same, when it came last', final('misconfigured'), final('context_length'), 'context_length!'],
    ['the last of two that do not', final('misconfigured'), final('faulty'), 'faulty!'],
    ['the first of two that do', final('context_length'), final('rejected'), 'context_length!'],
    ['the one after which nobody is asked', final('misconfigured'), away(), 'misconfigured!'],
    ['the same, when it came last', away(), final('faulty'), 'faulty!'],
  ]
  test.each(bothFail)('of two that fail, the client is told of %s', async (_which, second, first, told) => {
    routed.routing = { ...plain, hedgeAfterMs: 500, retries: 1 }
    const [a, b, c] = [
      routed.provider('a', [600, first, 'a']),
      routed.provider('b', [second, 'b']),
      routed.provider('c', ['c']),
    ]
    const text = routed.text(a, b, c)
    await routed.clock.turn(5_000)
    expect(await text).toBe(told)
    expect([a.calls.length, b.calls.length, c.calls.length]).toEqual([1, 1, 0])
    expect(routed.clock.pending).toBe(0)
  })

  test('a client that leaves while the other goes on is let go at once', async () => {
    const [a, b] = [routed.provider('a', [600, 'a']), routed.provider('b', [final('misconfigured')])]
    const text = routed.text(a, b)
    await routed.clock.turn(550)
    routed.client.abort('left')
    expect(await text).toBe('left')
    expect([a.cancelled(), routed.clock.pending]).toEqual([true, 1])
  })

  test('not without being asked for, and not for who answers in time', async () => {
    const b = routed.provider('b', ['b'])
    const text = routed.text(routed.provider('a', [499, 'a']), b)
    await routed.clock.turn(1_000)
    expect(await text).toBe('a')
    routed.routing = plain
    const slow = routed.text(routed.provider('slow', [5_000, 'a']), b)
    await routed.clock.turn(6_000)
    expect(await slow).toBe('a')
    expect(b.calls).toHaveLength(0)
  })
})

test('a target that failed five times in a row is asked after the others, until its pause is over', async () => {
  const a = routed.provider('a', [...Array.from({ length: 5 }, () => unknown()), 'well'])
  for (let calls = 0; calls < 5; calls += 1) expect(await routed.text(a, routed.provider('b', ['b']))).toBe('b')
  expect(a.calls).toHaveLength(5)
  expect(await routed.text(a, routed.provider('b', ['b']))).toBe('b')
  expect(a.calls).toHaveLength(5)
  await routed.clock.turn(5_000)
  expect(await routed.text(a, routed.provider('b', ['b']))).toBe('well')
  expect(routed.health.of({ provider: a, model: 'a-model' }).breaker.state).toBe('closed')
})

test('whatever targets do: one answer at most, nobody left at work, nobody asked again who may be, all in time', async () => {
  const failure = fc.constantFrom<() => Error>(
    () => away(),
    () => away(2),
    unknown,
    () => new ProviderFailure('faulty', 'scripted'),
    () => new TypeError('a bug'),
  )
  const step = fc.oneof(
    fc.constantFrom<Step>('silence', 'text', 0, 300, 900, 20_000),
    failure.map((make) => make()),
  )
  const plans = fc.record({
    choice: fc.constantFrom('in_order' as const, 'weighted' as const, 'least_busy' as const),
    retries: fc.nat(3),
    hedgeAfterMs: fc.constantFrom(null, 200, 1_000),
    coldStartMs: fc.constantFrom(0, 20_000),
  })
  const scripts = fc.array(fc.array(step, { maxLength: 8 }), { minLength: 1, maxLength: 4 })
  const leaving = fc.constantFrom(null, 0, 250, 5_000)
  await fc.assert(
    fc.asyncProperty(
      plans,
      scripts,
      leaving,
      fc.double({ min: 0, max: 0.99 }),
      async (routing, each, leavesMs, draw) => {
        const call = new RoutedCall()
        call.routing = routing
        call.random = () => draw
        const targets = each.map((script, position) => call.provider(`${position}`, script))
        const asked = call.text(...targets)
        if (leavesMs !== null) call.clock.after(leavesMs, () => call.client.abort('left'))
        await call.clock.turn(120_000)
        const text = await Promise.race([asked, Promise.resolve('nothing')])
        expect(text).not.toBe('nothing')
        for (const target of targets) {
          expect(call.health.of({ provider: target, model: `${target.name}-model` }).open).toBe(0)
          const outcomes = call.attempts.filter(
            (line) => line.startsWith(`${target.name} `) && !line.endsWith('hedges'),
          )
          expect(outcomes).toHaveLength(target.calls.length)
          // Timed out, cancelled, answered, faulty: nothing may follow these.
          const last = outcomes.findIndex((line) => !line.includes('unavailable'))
          expect(last === -1 || last === outcomes.length - 1).toBe(true)
        }
        expect(call.attempts.filter((line) => line.includes(' answered ')).length).toBeLessThanOrEqual(1)
      },
    ),
    { numRuns: 300 },
  )
})
