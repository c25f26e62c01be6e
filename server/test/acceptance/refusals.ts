import { expect } from 'bun:test'
import { ERROR_CATALOGUE, type ErrorCode } from '../../src/lib/errors.ts'
import type { Answer } from './description.ts'

/** The parts of an expected refusal. */
export interface Expected {
  readonly status: number
  readonly code: string
  /** Envelope B's; null unless given. */
  readonly param?: string
  /** The header, where there must be one; there must be none otherwise. */
  readonly retryAfter?: number
  readonly allow?: string
  /** The header that keeps OpenAI's clients from trying again; there must be none otherwise. */
  readonly shouldRetry?: string
  /** A text that the words for the client must have. */
  readonly says?: string | RegExp
}

/** E4, written out again: the code under test has its own. */
const TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'invalid_request_error',
  405: 'invalid_request_error',
  409: 'invalid_request_error',
  410: 'invalid_request_error',
  413: 'invalid_request_error',
  416: 'invalid_request_error',
  422: 'invalid_request_error',
  429: 'rate_limit_error',
  500: 'api_error',
  502: 'api_error',
  503: 'api_error',
  504: 'api_error',
}

/** Whole words for a person, whatever they are. */
const SENTENCE = expect.stringMatching(/^\S.*\w.*\.$/s)

const GENERATED_ID = /^[0-9a-f]{32}$/

/** Every field and header of a refusal in the envelope, and none beside them. */
export function expectRefusal(answer: Answer, envelope: 'A' | 'B', expected: Expected): void {
  const { status, code, retryAfter, allow, shouldRetry, says } = expected
  const { headers, json, text } = answer
  expect({ status: answer.status, code: codeOf(json) }).toEqual({ status, code })
  expect(headers.get('Content-Type')).toBe(envelope === 'A' ? 'application/problem+json' : 'application/json')
  expect(headers.get('Retry-After')).toBe(retryAfter === undefined ? null : String(retryAfter))
  expect(headers.get('Allow')).toBe(allow ?? null)
  expect(headers.get('x-should-retry')).toBe(shouldRetry ?? null)
  expect(headers.get('X-Request-Id')).toMatch(GENERATED_ID)
  if (envelope === 'A') {
    expect(json).toEqual(problem(answer, expected))
  } else {
    expect(json).toEqual(errorObject(expected))
  }
  expect(text).not.toMatch(/undefined|\[object|NaN/)
  if (says !== undefined) expect(wordsOf(json)).toMatch(says)
}

/** Envelope A's body. */
export function problem(answer: Answer, { status, code }: Expected): object {
  return {
    type: `urn:svc:error:${code}`,
    title: ERROR_CATALOGUE[code as ErrorCode].title,
    status,
    detail: SENTENCE,
    code,
    request_id: answer.headers.get('X-Request-Id'),
  }
}

/** Envelope B's body, also what an event of a stream holds. */
export function errorObject({ status, code, param }: Expected): object {
  return { error: { message: SENTENCE, type: TYPES[status], code, param: param ?? null } }
}

/** A stream whose only event is an error (C2), after `before` others. */
export function expectErrorEvent(answer: Answer, before: number, expected: Expected): void {
  expect(answer.status).toBe(200)
  expect(answer.headers.get('Content-Type')).toBe('text/event-stream')
  expect(answer.events.slice(before + 1)).toEqual(['[DONE]'])
  const event = JSON.parse(answer.events[before] ?? '')
  expect(event).toEqual(errorObject(expected))
  if (expected.says !== undefined) expect(wordsOf(event)).toMatch(expected.says)
}

function codeOf(json: unknown): unknown {
  const body = json as { code?: unknown; error?: { code?: unknown } } | undefined
  return body?.code ?? body?.error?.code
}

function wordsOf(json: unknown): string {
  const body = json as { detail?: string; error?: { message?: string } }
  return body.detail ?? body.error?.message ?? ''
}
