import { describe, expect, test } from 'bun:test'
import { withOrigins } from './crossOrigin.ts'

const random = (length: number) => new Uint8Array(length).fill(7)
const connection = { address: '192.0.2.1', setIdleTimeout: () => {} }
const PAGE = 'https://app.example.com'

const handled: string[] = []
const handle = async ({ method }: Request) => {
  handled.push(method)
  return new Response('{}', { status: method === 'OPTIONS' ? 405 : 200, headers: { 'X-Request-Id': 'mine' } })
}
const open = withOrigins([PAGE, 'http://localhost:3000'], random, handle)

const ask = (path: string, headers: Readonly<Record<string, string>>, method = 'GET') =>
  open(new Request(`http://gateway.test${path}`, { method, headers }), connection)

const corsOf = ({ headers }: Response) =>
  Object.fromEntries([...headers].filter(([name]) => /^access|^vary/.test(name)))

test('with no origin nothing changes', () => {
  expect(withOrigins([], random, handle)).toBe(handle)
})

describe('a page of a known origin', () => {
  test.each([PAGE, 'http://localhost:3000'])('reads the answer, and our headers: %s', async (origin) => {
    const cors = corsOf(await ask('/v1/models', { Origin: origin }))
    expect(Object.keys(cors).sort()).toEqual(['access-control-allow-origin', 'access-control-expose-headers', 'vary'])
    expect([cors['access-control-allow-origin'], cors['vary']]).toEqual([origin, 'Origin'])
    expect(cors['access-control-expose-headers']?.split(', ')).toContain('X-Request-Id')
  })

  test.each(['/v1/models', '/v1/nothing'])('is answered before it sends: %s', async (path) => {
    handled.length = 0
    const asked = 'authorization,content-type,x-stainless-lang'
    const headers = {
      Origin: PAGE,
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': asked,
    }
    const response = await ask(path, headers, 'OPTIONS')
    expect([response.status, handled, response.headers.get('X-Request-Id')]).toEqual([204, [], '07'.repeat(16)])
    expect(corsOf(response)).toMatchObject({
      'access-control-allow-origin': PAGE,
      'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
      'access-control-allow-headers': asked,
      'access-control-max-age': '600',
      vary: 'Origin',
    })
  })

  test.each([
    ['none', {}],
    ['no names', { 'Access-Control-Request-Headers': 'a; b' }],
    ['too many', { 'Access-Control-Request-Headers': 'x, '.repeat(80) }],
    ['too long ones', { 'Access-Control-Request-Headers': 'x'.repeat(2_049) }],
  ])('that names %s of its headers is told ours', async (_name, more) => {
    const response = await ask('/v1/models', { Origin: PAGE, ...more }, 'OPTIONS')
    const allowed = 'Authorization, Content-Type, Idempotency-Key, X-Request-Id'
    expect(response.headers.get('Access-Control-Allow-Headers')).toBe(allowed)
  })

  test.each(['/manage/v1/deliveries', '/manage/openapi.json', '/v10/models', '/', '/auth'])(
    'gets nothing outside /v1: %s',
    async (path) => {
      for (const method of ['GET', 'OPTIONS']) expect(corsOf(await ask(path, { Origin: PAGE }, method))).toEqual({})
      expect(handled.at(-1)).toBe('OPTIONS')
    },
  )
})

test.each([
  'https://app.example.com:8443',
  'http://app.example.com',
  'https://evil.example',
  'https://app.example.com.evil.example',
  'null',
  '*',
])('a page of another origin reads nothing, and caches are told: %s', async (origin) => {
  for (const method of ['GET', 'OPTIONS']) {
    expect(corsOf(await ask('/v1/models', { Origin: origin }, method))).toEqual({ vary: 'Origin' })
  }
  expect(handled.at(-1)).toBe('OPTIONS')
})

test('a caller that is no page gets its answer as ever, but for Vary', async () => {
  expect(corsOf(await ask('/v1/models', {}))).toEqual({ vary: 'Origin' })
})
