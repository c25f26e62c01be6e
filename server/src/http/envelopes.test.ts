import { describe, expect, test } from 'bun:test'
import { ERROR_CATALOGUE, type ErrorCode, refusal } from '../lib/errors.ts'
import { type Envelope, envelopeOf, errorEvent, refusalResponse, unknownPathResponse } from './envelopes.ts'

describe('the envelope of a path (E2)', () => {
  const rows: [string, Envelope][] = [
    ...['models', 'chat', 'embeddings', 'images', 'inference', 'videos'].flatMap((name): [string, Envelope][] => [
      [`/v1/${name}`, 'B'],
      [`/v1/${name}/`, 'B'],
      [`/v1/${name}/x/y`, 'B'],
      [`/v1/${name}s-else`, 'A'],
      [`/${name}`, 'A'],
    ]),
    ...['webhook-endpoints', 'operations', 'usage', 'billing', 'health', 'x', ''].map((name): [string, Envelope] => [
      `/v1/${name}`,
      'A',
    ]),
  ]
  test.each(rows)('%s: %s', (path, envelope) => {
    expect(envelopeOf(path)).toBe(envelope)
  })
})

describe.each(Object.keys(ERROR_CATALOGUE) as ErrorCode[])('%s', (code) => {
  const refused = refusal(code, 'Words.', { param: 'a[0].b', retryAfterSeconds: 3 })

  test('in A has its six fields, a title of its own, and never a param', async () => {
    const response = refusalResponse(refused, 'A', 'id')
    const body = (await response.json()) as { code: ErrorCode; title: string; status: number }
    expect(Object.keys(body).sort()).toEqual(['code', 'detail', 'request_id', 'status', 'title', 'type'])
    expect(body).toMatchObject({ type: `urn:svc:error:${body.code}`, detail: 'Words.', request_id: 'id' })
    expect(body.title).toBe(ERROR_CATALOGUE[body.code].title)
    expect(body.status).toBe(response.status)
    expect(response.headers.get('Retry-After')).toBe('3')
  })

  test('in B has its four fields', async () => {
    const response = refusalResponse(refused, 'B', 'id', { Allow: 'GET' })
    const { error } = (await response.json()) as { error: Record<string, unknown> }
    expect(Object.keys(error)).toEqual(['message', 'type', 'code', 'param'])
    expect(error).toMatchObject({ message: 'Words.', code, param: 'a[0].b' })
    expect([response.headers.get('X-Request-Id'), response.headers.get('Allow')]).toEqual(['id', 'GET'])
  })
})

test('an unknown path has both', async () => {
  const body = await unknownPathResponse(refusal('not_found', 'Words.'), 'id').json()
  expect(body).toMatchObject({ code: 'not_found', detail: 'Words.', error: { code: 'not_found', message: 'Words.' } })
})

test('an event is one line, whatever the words', () => {
  expect(errorEvent(refusal('upstream_error', 'One\nline, data: [DONE]'))).toMatch(/^data: \{[^\n]*\}\n\n$/)
})
