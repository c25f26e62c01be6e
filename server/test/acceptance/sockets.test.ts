/** Cases that only bytes on a socket can show: the real command as a process of its own, over HTTP written by hand. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { talk } from '../rawClient.ts'
import { startServer, type TestServer } from '../server.ts'
import { chat, directed, SETTINGS } from './catalog.ts'

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

  test.each(['/health', '/openapi.json', '/models'])('by a GET: %s', async (path) => {
    const said = await talk(server.url, get(path, 'Content-Length: 9000000\r\n'), { enough: /"\w+"[:,].*\}$/s })
    expect(statuses(said)).toEqual([413])
    expect(said).toContain('"code":"request_too_large"')
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
    ['the same length twice', LENGTH + LENGTH],
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

test.each(['/v1/health', '/v1/models', '/v1/nothing', '/manage/v1/events'])('HEAD %s has one Date', async (path) => {
  const said = await talk(server.url, `HEAD ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${authorization()}\r\n`)
  expect(said.match(/^date: /gim)).toHaveLength(1)
})

test('a method that the server does not know ends the connection, and one that it knows is 405', async () => {
  const ask = (method: string) =>
    talk(server.url, `${method} /v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
  expect(await ask('FOO')).toBe('')
  for (const method of ['TRACE', 'QUERY', 'PROPFIND']) expect(statuses(await ask(method))).toEqual([405])
})

describe('HTTP/1.0 without a Host', () => {
  const ask = (line: string, headers = '') => talk(server.url, `${line} HTTP/1.0\r\n${headers}\r\n`)
  test.each<[string, number, string]>([
    ['GET /v1/health', 200, '"status":"ok"'],
    ['GET /v1/health?x=http://h/v1/x', 422, "parameter 'x' is not known here"],
    ['HEAD /v1/health', 200, ''],
    ['GET /v1/models', 401, '"code":"unauthenticated"'],
    ['HEAD /v1/models', 401, ''],
    ['POST /v1/models', 405, '"code":"method_not_allowed"'],
    ['GET /aa/v1/health', 404, '"code":"not_found"'],
    ['GET /aa?x=http://h/v1/health', 404, '"code":"not_found"'],
    ['GET //v1/health', 404, '"code":"not_found"'],
    ['GET /', 404, '"code":"not_found"'],
  ])('%s: %i', async (line, status, text) => {
    const said = await ask(line)
    expect(statuses(said)).toEqual([status])
    expect(said).toMatch(/^X-Request-Id: [0-9a-f]{32}\r$/im)
    expect(said).toContain(text)
  })

  test('a paid call is answered', async () => {
    const call = `POST /v1/chat/completions HTTP/1.0\r\n${authorization()}${LENGTH}\r\n${BODY}`
    expect(await talk(server.url, call)).toContain('chat.completion')
    expect(await ask('GET /v1/models', authorization())).toContain('svc/demo')
  })

  test('an empty Host, and one that no URL can have, are like none', async () => {
    for (const host of ['', 'a/aa', 'a b', 'u@b', 'a?x=']) {
      const said = await talk(server.url, `GET /v1/health HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
      expect(statuses(said)).toEqual([200])
      const other = `GET /aa/v1/health HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`
      expect(statuses(await talk(server.url, other))).toEqual([404])
    }
  })
})

describe('a path is compared as it was sent', () => {
  test.each([
    ['/v1/%68ealth', 404],
    ['/v1//health', 404],
    ['//v1/health', 404],
    ['/v1%2fhealth', 404],
    ['/aa/v1/health', 404],
    ['/v1/health', 200],
    // The server resolves these before it shows them: docs/operating.md tells operators of proxies.
    ['/v1/./health', 200],
    ['/v1/x/../health', 200],
    ['/v1/x/%2e%2E/health', 200],
    ['/v1\\health', 200],
  ])('%s: %i', async (path, status) => {
    const said = await talk(server.url, `GET ${path} HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\n\r\n`)
    expect(statuses(said)).toEqual([status])
  })
})

describe('X-Request-Id of bytes above 127 comes back as it came', () => {
  test.each([
    ['UTF-8', 'caf\u00c3\u00a9 \u00e2\u0086\u0092'],
    ['Latin-1', 'caf\u00e9'],
    ['any bytes', '\u0080\u009f\u00a0\u00ff\u00c3'],
  ])('%s', async (_name, id) => {
    for (const path of ['/health', '/nothing', '/models']) {
      const request = `GET /v1${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Request-Id: ${id}\r\n\r\n`
      const said = await talk(server.url, Buffer.from(request, 'latin1'))
      expect(said).toContain(`X-Request-Id: ${id}\r\n`)
    }
  })
})

test('a GET that announces too long a body is refused, and its bytes are not waited for', async () => {
  const said = await talk(server.url, get('/models', `${authorization()}Content-Length: 900000000\r\n`), {
    enough: /\}\}$/,
  })
  expect(statuses(said)).toEqual([413])
  expect(said).toContain('"code":"request_too_large"')
})

describe('the admin port', () => {
  const ask = (path: string, headers: string, version = '1.1') =>
    talk(server.adminUrl, `GET ${path} HTTP/${version}\r\n${headers}Connection: close\r\n\r\n`)

  test('answers by the names of the loopback, and where there is no Host', async () => {
    for (const host of ['localhost', '127.0.0.1:1', '[::1]']) {
      expect(statuses(await ask('/ready', `Host: ${host}\r\n`))).toEqual([200])
    }
    expect(statuses(await ask('/ready', '', '1.0'))).toEqual([200])
    expect(await ask('/metrics', '', '1.0')).toContain('tollgate_ready 1')
  })

  test('refuses any other name, which a page of another site may have made to lead here', async () => {
    for (const path of ['/ready', '/metrics']) {
      const said = await ask(path, 'Host: rebound.example:9464\r\n')
      expect(statuses(said)).toEqual([403])
      expect(said).not.toContain('tollgate_')
    }
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

describe('pipelined requests, as Bun treats them', () => {
  const waiting = (headers = '') => {
    const body = JSON.stringify(directed('first_token_ms=200'))
    return `POST /v1/chat/completions HTTP/1.1\r\nHost: gateway.test\r\n${headers}${authorization()}Content-Length: ${body.length}\r\n\r\n${body}`
  }

  test('behind one that waits end the connection, and no answer comes', async () => {
    expect(await talk(server.url, waiting() + get('/health'))).toBe('')
  })

  test('behind one that asks to close are not looked at, and that one is answered', async () => {
    expect(statuses(await talk(server.url, waiting('Connection: close\r\n') + get('/health')))).toEqual([200])
  })

  test('behind one that does not wait are answered in their order', async () => {
    const said = await talk(server.url, get('/health') + get('/nothing', 'Connection: close\r\n'))
    expect(statuses(said)).toEqual([200, 404])
  })

  test('begin up to 64 in one turn, so that nobody waits for thousands that one connection has sent ahead', async () => {
    const said = await talk(server.url, get('/nothing').repeat(1_000))
    expect(new Set(statuses(said))).toEqual(new Set([404]))
    expect(statuses(said).length).toBeLessThanOrEqual(64)
  })
})

test.each([
  ['that can not be read: 400', 'GET /v1/health HTTP/1.1\r\nHost: a\r\nno header\r\n\r\n', 400],
  ['that is too long: 431', get('/health', `X: ${'x'.repeat(20_000)}\r\n`), 431],
])('a head %s, bare', async (_name, sent, status) => {
  const said = await talk(server.url, sent)
  expect(statuses(said)).toEqual([status])
  expect(said).not.toMatch(/x-request-id/i)
})
