import { expect, test } from 'bun:test'
import type { ProviderFailureKind } from '../dialect/spec.ts'
import { failureOfEvent, failureOfStatus } from './failure.ts'

const error = (type: string, message = 'x') => ({ type: 'error', error: { type, message }, request_id: 'req_1' })
const invalid = (message: string) => error('invalid_request_error', message)

const statuses: [status: number, body: object | string, ProviderFailureKind, mayFailOver: boolean][] = [
  [400, invalid('messages: roles must alternate'), 'rejected', false],
  [400, invalid('prompt is too long: 210000 tokens > 200000 maximum'), 'context_length', false],
  [
    400,
    invalid('input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000'),
    'context_length',
    false,
  ],
  [400, invalid('Your credit balance is too low to access the Anthropic API.'), 'misconfigured', false],
  [400, invalid('You have reached your specified API usage limits.'), 'misconfigured', false],
  [401, error('authentication_error'), 'misconfigured', false],
  [402, error('billing_error'), 'misconfigured', false],
  [403, error('permission_error'), 'misconfigured', false],
  [404, error('not_found_error'), 'misconfigured', false],
  [413, error('request_too_large'), 'rejected', false],
  [429, error('rate_limit_error'), 'unavailable', true],
  [500, error('api_error'), 'unavailable', true],
  [504, error('timeout_error'), 'unavailable', true],
  [529, error('overloaded_error', 'Overloaded'), 'unavailable', true],
  [529, '<html>busy</html>', 'unavailable', true],
  [400, '', 'rejected', false],
  [301, '', 'misconfigured', false],
]
test.each(statuses)('status %i with %p is %s', (status, body, kind, mayFailOver) => {
  const failure = failureOfStatus(status, typeof body === 'string' ? body : JSON.stringify(body), null)
  expect([failure.kind, failure.mayFailOver]).toEqual([kind, mayFailOver])
})

const events: [string, ProviderFailureKind][] = [
  ['overloaded_error', 'unavailable'],
  ['api_error', 'unavailable'],
  ['rate_limit_error', 'unavailable'],
  ['timeout_error', 'unavailable'],
  ['authentication_error', 'misconfigured'],
  ['billing_error', 'misconfigured'],
  ['not_found_error', 'misconfigured'],
  ['invalid_request_error', 'rejected'],
  ['something_new', 'unavailable'],
]
test.each(events)('an error event of type %p is %s', (type, kind) => {
  expect(failureOfEvent(error(type), true)).toMatchObject({ kind, mayFailOver: false })
})

const explained: [string, RegExp][] = [
  ['`temperature` is deprecated for this model.', /leave the parameter out/],
  ['temperature: range: 0..1', /leave the parameter out/],
  ['This model does not support assistant message prefill.', /last message/],
]
test.each(explained)('%p is told in our words', (message, words) => {
  expect(failureOfStatus(400, JSON.stringify(invalid(message)), null).publicMessage).toMatch(words)
})

test('any other refusal has no words but the usual ones', () => {
  expect(failureOfStatus(400, JSON.stringify(invalid('x')), null).publicMessage).toBeNull()
})

test("a server's own words, which may quote keys and prompts, are not repeated", () => {
  const body = JSON.stringify(error('authentication_error', 'invalid x-api-key: sk-ant-canary'))
  expect(failureOfStatus(401, body, null).message).toBe('status 401 (authentication_error)')
})
