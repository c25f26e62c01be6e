import { expect, test } from 'bun:test'
import { statusOf } from '../kernel/errors.ts'
import { UpstreamFailure, type UpstreamFailureKind } from '../upstream/spec.ts'
import { toRefusal } from './refusal.ts'

const rows: [UpstreamFailureKind, number, string, object][] = [
  ['unavailable', 503, 'upstream_unavailable', { retryAfterSeconds: 1 }],
  ['timeout', 504, 'upstream_timeout', {}],
  ['faulty', 502, 'upstream_error', {}],
  ['misconfigured', 502, 'upstream_error', {}],
  ['rejected', 400, 'invalid_request', {}],
  ['context_length', 400, 'context_length_exceeded', { param: 'messages' }],
]
test.each(rows)('%s becomes %i %s, in our words', (kind, status, code, more) => {
  const refused = toRefusal(new UpstreamFailure(kind, 'canary'))
  expect(statusOf(refused)).toBe(status)
  expect<object>(refused).toEqual({ code, message: refused.message, ...more })
  expect(refused.message).not.toContain('canary')
})

test('the time that an upstream named is passed on', () => {
  expect(
    toRefusal(new UpstreamFailure('unavailable', '', { mayFailOver: true, retryAfterSeconds: 9 })).retryAfterSeconds,
  ).toBe(9)
})

test('words that are ours already are used as they are', () => {
  expect(toRefusal(new UpstreamFailure('rejected', '', { publicMessage: 'Part 2 is wrong.' })).message).toBe(
    'Part 2 is wrong.',
  )
})
