/** K4: bodies that are still coming: their place, their memory and their deadline, as a client on a connection of its own sees them. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { makeKey, type TestKey } from '../customer.ts'
import { metric, untilMetric } from '../metricsPage.ts'
import { type OpenPort, openPortWith } from '../openPort.ts'
import { CHAT, SETTINGS as SANDBOX } from '../sandboxChat.ts'

const MIB = 1 << 20
const SETTINGS = `body_limit_bytes: ${MIB}
body_memory_bytes: ${8 * MIB}
open_requests_per_key: 6
max_messages: 30
max_parts: 3
${SANDBOX}`

let port: OpenPort
/** Its bodies have a second. */
let hurried: OpenPort
beforeAll(async () => {
  port = await openPortWith(SETTINGS)
  hurried = await openPortWith(`${SETTINGS}\nbody_deadline_seconds: 1\n`)
})
afterAll(async () => {
  await port.close()
  await hurried.close()
})

interface Client {
  readonly socket: Socket
  /** All that was answered, once the connection has ended or `enough` of it is here. */
  said(enough?: RegExp): Promise<string>
}

/** Sends the head of a request, and as much of its body as is given. */
function begin(
  key: TestKey,
  head: string,
  some: string | Uint8Array,
  path = '/v1/chat/completions',
  at = port,
): Client {
  const socket = connect(at.port, '127.0.0.1')
  let text = ''
  let look = () => {}
  socket.on('error', () => {})
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1')
    look()
  })
  let isClosed = false
  socket.on('close', () => {
    isClosed = true
    look()
  })
  socket.write(`POST ${path} HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer ${key.key}\r\n${head}\r\n\r\n`)
  socket.write(some)
  const said = (enough?: RegExp) =>
    new Promise<string>((resolve) => {
      look = () => {
        if (isClosed || enough?.test(text)) resolve(text)
      }
      look()
    })
  return { socket, said }
}

const WHOLE = /\r\n\r\n.*\}/s
const announce = (bytes: number) => `Content-Length: ${bytes}`

const until = (name: string, figure: number) => untilMetric(port.gateway.app, name, figure)

describe('a body that is still coming', () => {
  test('has its place already: the next request of the key is refused before its own body, others are not', async () => {
    const [key, other] = [await port.gateway.customer(), await port.gateway.customer()]
    const coming = Array.from({ length: 6 }, () => begin(key, announce(1_000), '{'))
    await until('open_requests', 6)
    const refused = await begin(key, announce(1_000), '').said(WHOLE)
    expect(refused).toStartWith('HTTP/1.1 429 ')
    expect(refused).toContain('stream_limit_exceeded')
    expect((await port.chat(other, CHAT)).status).toBe(200)
    for (const { socket } of coming) socket.destroy()
    await until('open_requests', 0)
    expect((await port.chat(key, CHAT)).status).toBe(200)
  })

  test('takes memory from when it is announced: a key has half of it, and gets it back', async () => {
    const [key, other] = [await port.gateway.customer(), await port.gateway.customer()]
    const coming = Array.from({ length: 4 }, () => begin(key, announce(MIB), '{'))
    await until('request_body_bytes', 4 * MIB)
    const refused = await begin(key, announce(MIB), '{').said()
    expect(refused).toStartWith('HTTP/1.1 429 ')
    expect(refused).toMatch(/rate_limit_exceeded/)
    expect(refused).toMatch(/retry-after: 1\r\n/i)
    expect(refused).toMatch(/connection: close\r\n/i)
    const others = Array.from({ length: 3 }, () => begin(other, announce(MIB), '{'))
    await until('request_body_bytes', 7 * MIB)
    // A customer with less gets the memory of the oldest body of the one with most.
    const third = begin(await port.gateway.customer(), announce(MIB), '{')
    const ended = await coming[0]?.said()
    expect(ended).toStartWith('HTTP/1.1 429 ')
    expect(ended).toContain('had not arrived when others needed its memory')
    expect(ended).toMatch(/retry-after: 1\r\n/i)
    expect(ended).toMatch(/connection: close\r\n/i)
    await until('request_body_bytes', 7 * MIB)
    for (const { socket } of [...coming, ...others, third]) socket.destroy()
    await until('request_body_bytes', 0)
  })

  test('is ended by nobody who would have as much: where all have the same, the next one is refused', async () => {
    const customers = await Promise.all(Array.from({ length: 8 }, () => port.gateway.customer()))
    const coming = customers.slice(1).map((key) => begin(key, announce(MIB), '{'))
    await until('request_body_bytes', 7 * MIB)
    const [last] = customers
    const full = last && (await begin(last, announce(MIB), '{').said())
    expect(full).toStartWith('HTTP/1.1 503 ')
    expect(full).toMatch(/upstream_unavailable/)
    // Small bodies have the last eighth for themselves.
    expect((await port.chat(await port.gateway.customer(), CHAT)).status).toBe(200)
    expect(await metric(port.gateway.app, 'request_body_bytes')).toBe(7 * MIB)
    for (const { socket } of coming) socket.destroy()
    await until('request_body_bytes', 0)
  })

  test('takes the memory of its organization too: with four keys that has three quarters, and others the rest', async () => {
    const first = await port.gateway.customer()
    const keys = [
      first,
      ...(await Promise.all([1, 2, 3].map(() => makeKey(port.gateway.database, first.organizationId)))),
    ]
    const coming = [...keys, ...keys.slice(0, 2)].map((key) => begin(key, announce(MIB), '{'))
    await until('request_body_bytes', 6 * MIB)
    // Each key has at most 2 MiB of the 4 that one alone may have.
    for (const key of keys) {
      const refused = await begin(key, announce(MIB), '{').said()
      expect(refused).toStartWith('HTTP/1.1 429 ')
      expect(refused).toContain('or its organization')
    }
    const other = begin(await port.gateway.customer(), announce(MIB), '{')
    await until('request_body_bytes', 7 * MIB)
    for (const { socket } of [...coming, other]) socket.destroy()
    await until('request_body_bytes', 0)
  })

  test('of a route without places is one of at most 100 of its key, each of which holds a connection', async () => {
    const [key, other] = [await port.gateway.customer(), await port.gateway.customer()]
    const coming = Array.from({ length: 100 }, () => begin(key, announce(20), '{', '/v1/webhook-endpoints'))
    await until('open_requests', 100)
    await until('request_body_bytes', 2_000)
    const refused = await begin(key, announce(20), '{', '/v1/webhook-endpoints').said()
    expect(refused).toStartWith('HTTP/1.1 429 ')
    expect(refused).toMatch(/rate_limited.*still arriving|still arriving.*rate_limited/s)
    expect(refused).toMatch(/connection: close\r\n/i)
    expect((await port.chat(other, CHAT)).status).toBe(200)
    for (const { socket } of coming) socket.destroy()
    await until('open_requests', 0)
    expect((await port.chat(key, CHAT)).status).toBe(200)
  })

  test('that is gzip takes no more than was sent of it until it is whole', async () => {
    const key = await port.gateway.customer()
    const bytes = gzipSync(Buffer.alloc(MIB - 1, 0x20))
    const head = `Content-Encoding: gzip\r\n${announce(bytes.byteLength)}`
    const coming = Array.from({ length: 6 }, () => begin(key, head, bytes.subarray(0, -1)))
    await until('open_requests', 6)
    await until('request_body_bytes', 6 * bytes.byteLength)
    for (const { socket } of coming) socket.write(bytes.subarray(-1))
    for (const { said } of coming) expect(await said(WHOLE)).toMatch(/^HTTP\/1\.1 (400|429) /)
    await until('request_body_bytes', 0)
  })

  test.each([
    ['small', announce(1_000)],
    ['large', announce(MIB)],
    ['of unknown length', 'Transfer-Encoding: chunked'],
  ])('%s: refused with 400 at its deadline, and its connection is closed', async (_name, head) => {
    const key = await hurried.gateway.customer()
    const some = head.startsWith('T') ? '5\r\n{"a":\r\n' : '{"a":'
    const answer = await begin(key, head, some, '/v1/chat/completions', hurried).said()
    expect(answer).toStartWith('HTTP/1.1 400 ')
    expect(answer).toMatch(/connection: close\r\n/i)
    expect(answer).toContain('did not arrive in time')
    expect(answer).toContain('"code":"invalid_request"')
    await hurried.idle()
  })
})

describe('a body of many values', () => {
  const messages = (count: number, message: object) => ({
    ...CHAT,
    messages: Array.from({ length: count }, () => message),
  })

  test.each([
    ['as many messages as may be', messages(30, { role: 'user', content: 'x' }), 200, /"chat.completion"/],
    [
      'one message more',
      messages(31, { role: 'user', content: 'x' }),
      422,
      /'messages': must hold at most 30 messages/,
    ],
    ['wrong messages', messages(30, { role: 'x' }), 422, /messages\[0\]/],
    [
      'one unknown field in the last message',
      { ...CHAT, messages: [...CHAT.messages, { ...CHAT.messages[0], x: 1 }] },
      400,
      /messages\[1\]\.x/,
    ],
  ])('%s', async (_name, body, status, says) => {
    const answer = await port.chat(await port.gateway.customer(), body)
    expect([answer.status, await answer.text()]).toEqual([status, expect.stringMatching(says)])
  })

  test.each([
    [3, 422],
    [4, 400],
  ])('a form of %d parts', async (count, status) => {
    const part = '--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n1\r\n'
    const body = `${part.repeat(count)}--b--\r\n`
    const head = `Content-Type: multipart/form-data; boundary=b\r\n${announce(body.length)}`
    const answer = await begin(await port.gateway.customer(), head, body, '/v1/videos').said(WHOLE)
    expect(answer).toStartWith(`HTTP/1.1 ${status} `)
  })
})
