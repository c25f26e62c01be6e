/** E19: pages of other sites, over the whole gateway. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Gateway, openGateway, type TestKey } from '../gateway.ts'
import { chat, SETTINGS } from './catalog.ts'
import type { Document } from './description.ts'

const PAGE = 'https://app.example.com'
let gateway: Gateway
let key: TestKey

beforeAll(async () => {
  gateway = await openGateway({ settings: `${SETTINGS}\ncors_origins: [${PAGE}]\n` })
  key = await gateway.customer()
})
afterAll(() => gateway.close())

const ask = (path: string, init: RequestInit = {}) =>
  gateway.send(path, { ...init, headers: { Origin: PAGE, ...init.headers } })

const mayRead = ({ headers }: Response) =>
  headers.get('Access-Control-Allow-Origin') === PAGE && headers.get('Vary') === 'Origin'

const withKey = () => ({ Authorization: `Bearer ${key.key}` })

describe('a page reads every answer beneath /v1', () => {
  test.each([
    ['/health', 200],
    ['/openapi.json', 200],
    ['/models', 200],
    ['/models/svc/none', 404],
    ['/nothing', 404],
    ['/chat/completions', 405],
    ['/models?x=1', 400],
  ])('%s: %i', async (path, status) => {
    const response = await ask(path, { headers: withKey() })
    expect([response.status, mayRead(response)]).toEqual([status, true])
    expect(response.headers.has('Access-Control-Allow-Credentials')).toBe(false)
    const head = await ask(path, { method: 'HEAD', headers: withKey() })
    expect([head.status, mayRead(head)]).toEqual([status, true])
  })

  test('errors before the key is known too', async () => {
    for (const headers of [{}, { Authorization: 'Bearer nonsense' }] as Record<string, string>[]) {
      const response = await ask('/models', { headers })
      expect([response.status, mayRead(response)]).toEqual([401, true])
    }
  })

  test('chat, whole and streamed', async () => {
    for (const stream of [false, true]) {
      const body = JSON.stringify(chat({ stream }))
      const response = await ask('/chat/completions', { method: 'POST', headers: withKey(), body })
      expect([response.status, mayRead(response)]).toEqual([200, true])
      await response.text()
    }
  })
})

test('every header that the description names can be read', async () => {
  const description = (await (await gateway.send('/openapi.json')).json()) as Document
  const named = Object.values(description.paths).flatMap((operations) =>
    Object.values(operations).flatMap(({ responses }) =>
      Object.values(responses).flatMap(({ headers = {} }) => Object.keys(headers)),
    ),
  )
  const exposed = (await ask('/health')).headers.get('Access-Control-Expose-Headers')?.toLowerCase().split(', ') ?? []
  // Of the last two the first is always readable, and neither of the others says anything to a page.
  const others = ['cache-control', 'last-modified', 'x-content-type-options', 'x-accel-buffering']
  const known = new Set([...exposed, ...others])
  expect([...new Set(named)].filter((name) => !known.has(name.toLowerCase()))).toEqual([])
})

test('OPTIONS is answered without a key, and 405 for pages of others', async () => {
  const answered = await ask('/chat/completions', { method: 'OPTIONS' })
  expect([answered.status, mayRead(answered)]).toEqual([204, true])
  const other = await ask('/chat/completions', { method: 'OPTIONS', headers: { Origin: 'https://evil.example' } })
  expect([other.status, other.headers.get('Access-Control-Allow-Origin'), other.headers.get('Vary')]).toEqual([
    405,
    null,
    'Origin',
  ])
})

test('nothing of it is on /manage', async () => {
  for (const path of ['/manage/v1/deliveries', '/manage/openapi.json', '/manage/v1/nothing']) {
    for (const method of ['GET', 'OPTIONS']) {
      const response = await ask(path, { method, headers: withKey() })
      expect([...response.headers.keys()].filter((name) => /^access-control|^vary/.test(name))).toEqual([])
    }
  }
})
