import { expect, test } from 'bun:test'
import { statusOf } from '../lib/errors.ts'
import { ProviderFailure, type ProviderFailureKind } from '../providers/dialect/spec.ts'
import { toRefusal } from './refusal.ts'

const rows: [ProviderFailureKind, number, string, object][] = [
  ['unavailable', 503, 'upstream_unavailable', { retryAfterSeconds: 1 }],
  ['timeout', 504, 'upstream_timeout', {}],
  ['faulty', 502, 'upstream_error', {}],
  ['misconfigured', 502, 'upstream_error', {}],
  ['rejected', 400, 'invalid_request', {}],
  ['context_length', 400, 'context_length_exceeded', { param: 'messages' }],
]
test.each(rows)('%s becomes %i %s, in our words', (kind, status, code, more) => {
  const refused = toRefusal(new ProviderFailure(kind, 'canary'))
  expect(statusOf(refused)).toBe(status)
  expect<object>(refused).toEqual({ code, message: refused.message, ...more })
  expect(refused.message).not.toContain('canary')
})

test('the time that a provider named is passed on', () => {
  expect(
    toRefusal(new ProviderFailure('unavailable', '', { mayFailOver: true, retryAfterSeconds: 9 })).retryAfterSeconds,
  ).toBe(9)
})

test('words that are ours already are used as they are', () => {
  expect(toRefusal(new ProviderFailure('rejected', '', { publicMessage: 'Part 2 is wrong.' })).message).toBe(
    'Part 2 is wrong.',
  )
})
