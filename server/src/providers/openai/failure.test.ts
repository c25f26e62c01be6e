import { expect, test } from 'bun:test'
import { retryAfterFromWire } from '../dialect/failure.ts'
import type { ProviderFailureKind } from '../dialect/spec.ts'
import { failureOfChunk, failureOfStatus, isErrorObject } from './failure.ts'

const TOO_LONG = {
  openai: {
    error: {
      message: "This model's maximum context length is 4097 tokens. However, your messages resulted in 4294 tokens.",
      type: 'invalid_request_error',
      param: 'messages',
      code: 'context_length_exceeded',
    },
  },
  vllm: {
    error: {
      message: "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
      type: 'BadRequestError',
      param: null,
      code: 400,
    },
  },
  sglang: {
    object: 'error',
    message: "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
    type: 'BadRequestError',
    param: null,
    code: 400,
  },
  llamaCpp: {
    error: {
      code: 400,
      message: 'request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it',
      type: 'exceed_context_size_error',
      n_prompt_tokens: 4390,
      n_ctx: 4096,
    },
  },
  llamaCppLate: { error: { code: 500, message: 'Context size has been exceeded.', type: 'server_error' } },
}
const OTHER = { error: { message: 'temperature must be at most 1', type: 'invalid_request_error', code: null } }

const statuses: [status: number, body: string, ProviderFailureKind, mayFailOver: boolean][] = [
  [301, '', 'misconfigured', false],
  [400, JSON.stringify(OTHER), 'rejected', false],
  [400, JSON.stringify(TOO_LONG.openai), 'context_length', false],
  [400, JSON.stringify(TOO_LONG.vllm), 'context_length', false],
  [400, JSON.stringify(TOO_LONG.sglang), 'context_length', false],
  [400, JSON.stringify(TOO_LONG.llamaCpp), 'context_length', false],
  [500, JSON.stringify(TOO_LONG.llamaCppLate), 'context_length', false],
  [400, '<html>Bad Request</html>', 'rejected', false],
  [401, JSON.stringify(TOO_LONG.openai), 'misconfigured', false],
  [402, '', 'misconfigured', false],
  [403, '', 'misconfigured', false],
  [404, '{"error":{"message":"model not found"}}', 'misconfigured', false],
  [405, '', 'misconfigured', false],
  [408, '', 'unavailable', true],
  [413, '', 'rejected', false],
  [422, '{"error":"bad"}', 'rejected', false],
  [429, '{"error":{"code":"insufficient_quota"}}', 'unavailable', true],
  [500, '{}', 'unavailable', true],
  [502, '<html>', 'unavailable', true],
  [503, '', 'unavailable', true],
  [204, '', 'faulty', false],
]
test.each(statuses)('status %i with %p is %s', (status, body, kind, mayFailOver) => {
  const failure = failureOfStatus(status, body, null)
  expect([failure.kind, failure.mayFailOver]).toEqual([kind, mayFailOver])
})

test('the time to wait is kept where waiting helps', () => {
  expect(failureOfStatus(429, '', 7).retryAfterSeconds).toBe(7)
  expect(failureOfStatus(400, '', 7).retryAfterSeconds).toBeNull()
})

test('a refusal inside a stream of status 200 is what its code says', () => {
  const wire = { error: TOO_LONG.sglang }
  expect(isErrorObject(wire)).toBe(true)
  expect(failureOfChunk(wire, false).kind).toBe('context_length')
})

test('an error object may be answered elsewhere only before anything of the answer has come', () => {
  const wire = { error: { message: 'CUDA out of memory', type: 'InternalServerError', code: 500 } }
  expect(failureOfChunk(wire, false)).toMatchObject({ kind: 'unavailable', mayFailOver: true })
  expect(failureOfChunk(wire, true)).toMatchObject({ kind: 'unavailable', mayFailOver: false })
})

test("a server's own words, which may quote keys and prompts, are not repeated", () => {
  const canary = 'sk-canary-1234'
  const body = JSON.stringify({
    error: { message: `Incorrect API key: ${canary}`, type: canary, code: 'invalid_api_key' },
  })
  expect(failureOfStatus(401, body, null).message).toBe('status 401 (invalid_api_key)')
})

/** Stands in all that the server itself says. */
const CANARY = 'canary-1b7e'
const refusedParameters: [param: string, code: string, words: RegExp, advice: RegExp | null][] = [
  ['max_tokens', 'unsupported_parameter', /does not take 'max_tokens'/, /'max_tokens_field: max_completion_tokens'/],
  ['max_completion_tokens', 'unsupported_parameter', /does not take 'max_tokens'/, /remove 'max_tokens_field'/],
  ['max_tokens', 'invalid_value', /does not accept this 'max_tokens'/, null],
  ['max_completion_tokens', 'null', /does not accept this 'max_tokens'/, null],
  ['temperature', 'unsupported_value', /does not accept this 'temperature'/, /'supported_parameters'/],
  ['temperature', 'decimal_above_max_value', /does not accept this 'temperature'/, null],
]
test.each(refusedParameters)('%s that is refused with %s is told in our words', (param, code, words, advice) => {
  const body = JSON.stringify({ error: { message: CANARY, type: 'invalid_request_error', param, code } })
  const failure = failureOfStatus(400, body, null)
  expect(failure.kind).toBe('rejected')
  expect(failure.publicMessage).toMatch(words)
  if (advice === null) expect(failure.advice).toBeNull()
  else expect(failure.advice).toMatch(advice)
  expect(`${failure.publicMessage} ${failure.advice} ${failure.message}`).not.toContain(CANARY)
})

test('a refusal of any other parameter, or of none, has no words but the usual ones', () => {
  for (const param of ['messages', CANARY, null, { max_tokens: 1 }]) {
    const body = JSON.stringify({ error: { message: CANARY, param, code: 'unsupported_parameter' } })
    expect(failureOfStatus(400, body, null)).toMatchObject({ kind: 'rejected', publicMessage: null, advice: null })
  }
})

test('a parameter that is named by a failure of another kind has no words either', () => {
  const body = JSON.stringify({ error: { message: CANARY, param: 'max_tokens', code: 'unsupported_parameter' } })
  expect(failureOfStatus(503, body, null)).toMatchObject({ kind: 'unavailable', publicMessage: null, advice: null })
})

const NOW_MS = Date.UTC(2026, 0, 1)
const waits: [string | null, number | null][] = [
  [null, null],
  ['', null],
  ['soon', null],
  ['12', 12],
  ['0', 1],
  ['99999999', 86_400],
  ['-5', null],
  ['Thu, 01 Jan 2026 00:00:30 GMT', 30],
  ['Thu, 01 Jan 2015 00:00:30 GMT', 1],
]
test.each(waits)('Retry-After %p means %p seconds', (header, seconds) => {
  expect(retryAfterFromWire(header, NOW_MS)).toBe(seconds)
})
