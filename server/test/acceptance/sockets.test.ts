/** What only bytes on a socket can be: the real command as a process of its own, over HTTP written by hand. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { talk } from '../rawClient.ts'
import { startServer, type TestServer } from '../server.ts'
import { chat, SETTINGS } from './catalog.ts'

const START_LIMIT_MS = 90_000
let server: TestServer
let key: string

beforeAll(async () => {
  server = await startServer({ settings: SETTINGS })
  key = String((await server.command('keys', 'create', '--org', 'default', '--scope', 'full_access'))['key'])
}, START_LIMIT_MS)
afterAll(() => server.remove(), START_LIMIT_MS)

const BODY = JSON.stringify(chat())
const LENGTH = `Content-Length: ${BODY.length}\r\n`
const CHUNKED = 'Transfer-Encoding: chunked\r\n'
const CHUNKS = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`
const authorization = () => `Authorization: Bearer ${key}\r\n`

function post(headers: string, body = BODY): string {
  return `POST /v1/chat/completions HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\n${headers}\r\n${body}`
}

const get = (path: string, headers = '') => `GET /v1${path} HTTP/1.1\r\nHost: gateway.test\r\n${headers}\r\n`

/** Status lines of all answers. */
const statuses = (said: string) => [...said.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => Number(status))

async function balanceCents(): Promise<unknown> {
  const response = await fetch(`${server.url}/billing/balance`, { headers: { Authorization: `Bearer ${key}` } })
  return ((await response.json()) as { balance_cents: number }).balance_cents
}

test('a request written by hand is answered', async () => {
  const said = await talk(server.url, post(authorization() + LENGTH))
  expect(statuses(said)).toEqual([200])
  expect(await talk(server.url, post(authorization() + CHUNKED, CHUNKS))).toContain('chat.completion')
})

describe('the key', () => {
  test.each([
    ['sent twice', () => authorization() + authorization()],
    ['sent twice, the second wrong', () => `${authorization()}Authorization: Bearer nonsense\r\n`],
    ['two in one header', () => `Authorization: Bearer ${key}, Bearer ${key}\r\n`],
    ['with a comma', () => `Authorization: Bearer ${key},\r\n`],
  ])('%s is malformed', async (_name, headers) => {
    const said = await talk(server.url, post(headers() + LENGTH))
    expect(statuses(said)).toEqual([401])
    expect(said).toContain('"code":"invalid_api_key"')
    expect(said).not.toContain(key)
  })
})

test('two Host headers are refused', async () => {
  const said = await talk(server.url, post(`Host: other.test\r\n${authorization()}${LENGTH}`))
  expect(statuses(said)).toEqual([400])
  expect(said).toContain('"code":"invalid_request"')
})

describe('a body over the limit is refused in the envelope, before the key is looked at', () => {
  test.each([65_537, 9_000_000, 900_000_000, 4_000_000_000])('announced as %i bytes', async (length) => {
    const said = await talk(server.url, post(`X-Request-Id: mine\r\nContent-Length: ${length}\r\n`, ''), {
      enough: /\}\}$/,
    })
    expect(statuses(said)).toEqual([413])
    expect(said).toContain('"code":"request_too_large"')
    expect(said).toMatch(/X-Request-Id: mine\r\n/i)
  })

  test('in chunks, with a key', async () => {
    const chunk = `10000\r\n${' '.repeat(65_536)}\r\n`
    const said = await talk(server.url, post(authorization() + CHUNKED, chunk.repeat(40)), { enough: /\}\}$/ })
    expect(statuses(said)).toEqual([413])
    expect(said).toContain('"code":"request_too_large"')
  })
})

describe('what two servers could read in two ways is refused, and nothing of it is charged', () => {
  const shapes: [string, string, string?][] = [
    ['a length and chunks', LENGTH + CHUNKED, CHUNKS],
    ['chunks and a length', CHUNKED + LENGTH, CHUNKS],
    ['two lengths', `${LENGTH}Content-Length: 5\r\n`],
    ['a list of lengths', `Content-Length: ${BODY.length}, 5\r\n`],
    ['a length with a sign', `Content-Length: +${BODY.length}\r\n`],
    ['a length below zero', 'Content-Length: -1\r\n'],
    ['a length in hex', 'Content-Length: 0x10\r\n'],
    ['another coding', 'Transfer-Encoding: xchunked\r\n', CHUNKS],
    ['chunked, then another', 'Transfer-Encoding: chunked, identity\r\n', CHUNKS],
    ['two codings', `${CHUNKED}Transfer-Encoding: identity\r\n`, CHUNKS],
    ['a space before the colon', 'Transfer-Encoding : chunked\r\n', CHUNKS],
    ['a folded header', 'Transfer-Encoding:\r\n chunked\r\n', CHUNKS],
    ['a header with a bare CR', `X-A: a\rContent-Length: 3\r\n${LENGTH}`],
    ['a header with a bare LF', `X-A: a\nX-B: b\r\n${LENGTH}`],
    ['a header with a NUL', `X-A: a\0b\r\n${LENGTH}`],
    ['a space in a name', `X A: b\r\n${LENGTH}`],
    ['a chunk below zero', CHUNKED, `-5\r\n${BODY}\r\n0\r\n\r\n`],
    ['a chunk beyond all numbers', CHUNKED, `FFFFFFFFFFFFFFFFF\r\n${BODY}\r\n0\r\n\r\n`],
    ['chunks with bare LF', CHUNKED, `${BODY.length.toString(16)}\n${BODY}\n0\n\n`],
    ['a corrupt end', CHUNKED, `${BODY.length.toString(16)}\r\n${BODY}XX0\r\n\r\n`],
  ]
  test.each(shapes)('%s', async (...[, headers, body]: [string, string, string?]) => {
    const before = await balanceCents()
    const said = await talk(server.url, post(authorization() + headers, body ?? BODY))
    expect(statuses(said)).toEqual([400])
    expect(said).not.toContain('chat.completion')
    expect(await balanceCents()).toBe(before)
  })

  test('headers without end', async () => {
    const said = await talk(server.url, post(`X-A: ${'a'.repeat(200_000)}\r\n${authorization()}${LENGTH}`))
    expect(statuses(said)).toEqual([431])
  })

  test('no host', async () => {
    const said = await talk(server.url, `GET /v1/health HTTP/1.1\r\n\r\n`)
    expect(statuses(said)).toEqual([400])
  })
})

describe('a client that is gone before its body is whole', () => {
  test.each([
    ['announced', () => post(`${authorization()}Content-Length: ${BODY.length + 9}\r\n`)],
    ['in chunks', () => post(authorization() + CHUNKED, `${(BODY.length + 9).toString(16)}\r\n${BODY}`)],
  ])('%s: nothing is done or charged, and others are served', async (_name, request) => {
    const before = await balanceCents()
    expect(await talk(server.url, request(), { hangUp: true })).toBe('')
    expect(await balanceCents()).toBe(before)
    expect(statuses(await talk(server.url, post(authorization() + LENGTH)))).toEqual([200])
  })
})

describe('several requests on one connection', () => {
  test('are answered in their order, each with its own request id', async () => {
    const requests = ['/health', '/nothing', '/health'].map((path, index) =>
      get(path, `X-Request-Id: ${index + 1}\r\n`),
    )
    const said = await talk(server.url, requests.join(''), { enough: /(?:"status":"ok"\}.*){2}/s })
    expect(statuses(said)).toEqual([200, 404, 200])
    expect([...said.matchAll(/^X-Request-Id: (\d)\r$/gim)].map(([, id]) => id)).toEqual(['1', '2', '3'])
  })

  test('that wait for something are answered by nobody twice: the connection is closed, or each is answered', async () => {
    const keepAlive = post(authorization() + LENGTH).replace('Connection: close\r\n', '')
    const said = await talk(server.url, keepAlive + post(authorization() + LENGTH))
    expect([[], [200], [200, 200]]).toContainEqual(statuses(said))
    expect(statuses(await talk(server.url, post(authorization() + LENGTH)))).toEqual([200])
  })

  test('the body of one is not the head of the next', async () => {
    const hidden = get('/models', authorization())
    const headers = `${authorization()}Content-Length: ${hidden.length}\r\n`
    const said = await talk(server.url, post(headers, hidden))
    expect(statuses(said)).toEqual([400])
    expect(said).toContain('not valid JSON')
  })
})

test('HEAD has the length of GET and no body', async () => {
  const head = get('/models', `${authorization()}Connection: close\r\n`).replace('GET', 'HEAD')
  const said = await talk(server.url, head)
  const got = await fetch(`${server.url}/models`, { headers: { Authorization: `Bearer ${key}` } })
  const length = (await got.text()).length
  expect(said).toMatch(new RegExp(`^content-length: ${length}\\r$`, 'im'))
  expect(said.endsWith('\r\n\r\n')).toBe(true)
})
