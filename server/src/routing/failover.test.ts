import { beforeEach, expect, test } from 'bun:test'
import { CALL, RoutedCall } from '../../test/routedCall.ts'
import { ProviderFailure, type ProviderFailureKind } from '../providers/dialect/spec.ts'

let routed: RoutedCall
beforeEach(() => {
  routed = new RoutedCall()
})

function fails(kind: ProviderFailureKind, mayFailOver = false): ProviderFailure {
  return new ProviderFailure(kind, 'scripted', { mayFailOver })
}

test('a target is called by its own name of the model, and its answer is passed on', async () => {
  const a = routed.provider('a', ['x', 'y'])
  expect(await routed.text(a)).toBe('xy')
  expect(a.calls).toEqual([{ ...CALL, model: 'a-model' }])
  expect(routed.attempts).toEqual(['a answered 0'])
  expect(a.cancelled()).toBe(false)
  expect(routed.clock.pending).toBe(0)
})

test('targets are asked in their order until one begins to answer', async () => {
  const [a, b, c, d] = [
    routed.provider('a', [fails('unavailable', true), 'headers']),
    routed.provider('b', ['headers', fails('unavailable', true)]),
    routed.provider('c', ['c']),
    routed.provider('d', ['d']),
  ]
  const opened = await routed.open(a, b, c, d)
  expect(opened.target.provider).toBe(c)
  expect([a, b, c, d].map((provider) => provider.calls.length)).toEqual([1, 1, 1, 0])
  expect(routed.logged).toEqual(['warn a unavailable', 'warn b unavailable'])
  opened.cancel()
  expect(routed.clock.pending).toBe(0)
})

test('no target is asked twice in a call', async () => {
  const a = routed.provider('a', [fails('unavailable', true)])
  expect(await routed.text(a, a, a)).toBe('unavailable!')
  expect(a.calls).toHaveLength(1)
})

test("after the last target, its class is the call's", async () => {
  expect(
    await routed.text(routed.provider('a', [fails('unavailable', true)]), routed.provider('b', [fails('faulty')])),
  ).toBe('faulty!')
  expect(await routed.text()).toBe('unavailable!')
})

const final: ProviderFailureKind[] = ['faulty', 'misconfigured', 'rejected', 'context_length']
test.each(final)('%s is not tried elsewhere', async (kind) => {
  const b = routed.provider('b', ['b'])
  expect(await routed.text(routed.provider('a', [fails(kind)]), b)).toBe(`${kind}!`)
  expect(b.calls).toHaveLength(0)
  const level = kind === 'misconfigured' ? 'error' : kind === 'faulty' ? 'warn' : 'debug'
  expect(routed.logged).toEqual([`${level} a ${kind}`])
})

test('a refusal that a setting ends is a warning in the log', async () => {
  const refused = new ProviderFailure('rejected', 'scripted', { advice: 'change the setting' })
  expect(await routed.text(routed.provider('a', [refused]))).toBe('rejected!')
  expect(routed.logged).toEqual(['warn a rejected'])
})

test('once an answer has begun no other target is asked', async () => {
  const b = routed.provider('b', ['b'])
  expect(await routed.text(routed.provider('a', ['x', fails('unavailable', true)]), b)).toBe('xunavailable!')
  expect(b.calls).toHaveLength(0)
})

test('an empty answer is faulty, for its client, the metrics and the log', async () => {
  const a = routed.provider('a', [])
  expect(await routed.text(a)).toBe('faulty!')
  expect(routed.attempts).toEqual(['a faulty 0'])
  expect(routed.logged).toEqual(['warn a faulty'])
  expect(routed.clock.pending).toBe(0)
})

test('a target whose answers are empty is asked behind the others', async () => {
  const [a, b] = [routed.provider('a', []), routed.provider('b', ['b'])]
  for (let call = 0; call < 5; call += 1) expect(await routed.text(a, b)).toBe('faulty!')
  expect(await routed.text(a, b)).toBe('b')
})

test('an error that a dialect throws by mistake is faulty, and its text is not logged', async () => {
  const opening = routed.open(routed.provider('a', [new TypeError('canary')]))
  const failure = await opening.catch((error) => error)
  expect(failure).toMatchObject({ kind: 'faulty', message: 'unexpected: TypeError' })
})
