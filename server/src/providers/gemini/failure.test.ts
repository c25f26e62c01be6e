import { expect, test } from 'bun:test'
import type { ProviderFailureKind } from '../dialect/spec.ts'
import { failureOfChunk, failureOfStatus } from './failure.ts'

const error = (code: number, status: string, message = 'x', details: readonly object[] = []) => ({
  error: { code, message, status, details },
})
const TYPES = 'type.googleapis.com/google.rpc'
const reason = (word: string) => ({ '@type': `${TYPES}.ErrorInfo`, reason: word, domain: 'googleapis.com' })
const retry = (retryDelay: unknown) => ({ '@type': `${TYPES}.RetryInfo`, retryDelay })

const TOO_LONG = 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).'
const BAD_KEY = error(400, 'INVALID_ARGUMENT', 'API key not valid.', [reason('API_KEY_INVALID')])

const statuses: [status: number, body: unknown, ProviderFailureKind, mayFailOver: boolean][] = [
  [400, error(400, 'INVALID_ARGUMENT'), 'rejected', false],
  [400, error(400, 'INVALID_ARGUMENT', TOO_LONG), 'context_length', false],
  [400, [error(400, 'INVALID_ARGUMENT', TOO_LONG)], 'context_length', false],
  [400, BAD_KEY, 'misconfigured', false],
  [400, [BAD_KEY], 'misconfigured', false],
  [400, error(400, 'FAILED_PRECONDITION', 'User location is not supported.'), 'misconfigured', false],
  [403, error(403, 'PERMISSION_DENIED'), 'misconfigured', false],
  [404, error(404, 'NOT_FOUND'), 'misconfigured', false],
  [429, error(429, 'RESOURCE_EXHAUSTED'), 'unavailable', true],
  [500, error(500, 'INTERNAL'), 'unavailable', true],
  [503, error(503, 'UNAVAILABLE'), 'unavailable', true],
  [504, error(504, 'DEADLINE_EXCEEDED'), 'unavailable', true],
  [400, 'no JSON', 'rejected', false],
  [502, [], 'unavailable', true],
  [302, null, 'misconfigured', false],
]
test.each(statuses)('status %i with %j is %s', (status, body, kind, mayFailOver) => {
  const failure = failureOfStatus(status, typeof body === 'string' ? body : JSON.stringify(body), null)
  expect([failure.kind, failure.mayFailOver]).toEqual([kind, mayFailOver])
})

const waits: [unknown, number | null][] = [
  ['37s', 37],
  ['37.2s', 38],
  ['0s', 1],
  ['999999s', 86_400],
  ['-3s', null],
  ['soon', null],
  [null, null],
]
test.each(waits)('a retryDelay of %p means %p seconds', (delay, seconds) => {
  const body = JSON.stringify(error(429, 'RESOURCE_EXHAUSTED', 'x', [reason('RATE_LIMIT_EXCEEDED'), retry(delay)]))
  expect(failureOfStatus(429, body, null).retryAfterSeconds).toBe(seconds)
  expect(failureOfStatus(429, body, 5).retryAfterSeconds).toBe(5)
})

test('an error in mid-stream is what its code says', () => {
  expect(failureOfChunk(error(429, 'RESOURCE_EXHAUSTED'), true)).toMatchObject({ kind: 'unavailable' })
  expect(failureOfChunk(BAD_KEY, false)).toMatchObject({ kind: 'misconfigured', mayFailOver: false })
  expect(failureOfChunk({ error: {} }, false)).toMatchObject({ kind: 'unavailable', mayFailOver: true })
})

test("a server's own words, which may quote keys and prompts, are not repeated", () => {
  const body = error(400, 'INVALID_ARGUMENT', 'API key canary not valid', [
    reason('API_KEY_INVALID'),
    reason('canary 1'),
  ])
  expect(failureOfStatus(400, JSON.stringify(body), null).message).toBe(
    'status 400 (INVALID_ARGUMENT, API_KEY_INVALID)',
  )
})
