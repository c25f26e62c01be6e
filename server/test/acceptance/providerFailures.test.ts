/** C7 end to end: whatever a provider does, the client gets our status, our code and our words, and none of its own. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { END_OF_BODY, head, piece, type RawServer, rawServer } from '../rawServer.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { type Expected, expectErrorEvent, expectRefusal } from './refusals.ts'

/** Stands in everything that the provider says; must not arrive. */
const CANARY = 'canary-9f2c'
const path = '/chat/completions'
const SHORT_DEADLINES = 'deadlines: { connect_seconds: 0.3, first_byte_seconds: 0.3, silence_seconds: 0.3 }\n'

let gateway: AskedGateway
/** The same with short deadlines, for what keeps silent; all else has time on a machine under load. */
let hasty: AskedGateway
let provider: RawServer
let spare: RawServer
let key: { key: string }
let answer: (socket: Socket) => void = () => {}

const say = (content: string) =>
  piece(`data: ${JSON.stringify({ id: CANARY, model: CANARY, choices: [{ delta: { content } }] })}\n\n`)
const STOP = piece('data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')

/** A whole answer, after which the connection is closed, so that no test meets the socket of another. */
function whole(status: string, contentType: string, body: string, more = ''): (socket: Socket) => void {
  const fields = `Content-Type: ${contentType}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${more}`
  return (socket) => socket.end(`HTTP/1.1 ${status}\r\n${fields}Connection: close\r\n\r\n${body}`)
}

/** The head of a streamed answer on a connection that is closed after it. */
const lastHead = () => head('200 OK', 'text/event-stream', 'Connection: close\r\n')

const error = (message = CANARY, code: string = CANARY) =>
  JSON.stringify({ error: { message: `${message} ${CANARY}`, type: CANARY, code, param: CANARY } })
const refuse = (status: string, body = error(), more = '') => whole(status, 'application/json', body, more)

beforeAll(async () => {
  provider = await rawServer((socket) => answer(socket))
  spare = await rawServer((socket) =>
    socket.end(Buffer.concat([Buffer.from(lastHead()), say('spare'), STOP, Buffer.from(END_OF_BODY)])),
  )
  const model = (id: string, ...targets: string[]) => `
  - id: svc/${id}
    context_length: 4096
    max_output_tokens: 64
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }
    targets: [${targets.map((name) => `{ provider: ${name}, model: ${CANARY} }`).join(', ')}]`
  // Each row is about one failure. With the breaker as it comes, targets that failed in the rows before would be asked last,
  // and who is asked first would follow from the order of the rows; it has its own tests (routing.test.ts), and
  // providerLies.test.ts shows that a target alone is refused in the same words with the breaker as it comes.
  const settings = `
breaker_failures: 1000000
providers:
  first: { dialect: openai, base_url: "${provider.url}/v1" }
  spare: { dialect: openai, base_url: "${spare.url}/v1" }
  nobody: { dialect: openai, base_url: "http://127.0.0.1:1/v1" }
models:${model('one', 'first')}${model('two', 'first', 'spare')}${model('away', 'nobody')}${model('cover', 'nobody', 'spare')}
`
  gateway = await openAskedGateway({ settings })
  hasty = await openAskedGateway({ settings: `${settings}${SHORT_DEADLINES}`, beside: gateway })
  key = await gateway.customer()
})
afterAll(async () => {
  await hasty.close()
  await gateway.close()
  provider.stop()
  spare.stop()
})

const ask = (model: string, stream: boolean, at = gateway) => {
  const body = { model: `svc/${model}`, messages: [{ role: 'user', content: 'Hello.' }], stream }
  return at.ask({ path, key, body })
}

async function countCharges(): Promise<number> {
  const rows = await gateway.database.query<{ count: bigint }>('select count(*) as count from charges')
  return Number(rows[0]?.count)
}

const unavailable: Expected = { status: 503, code: 'upstream_unavailable', retryAfter: 1 }
const timeout: Expected = { status: 504, code: 'upstream_timeout' }
const faulty: Expected = { status: 502, code: 'upstream_error', says: /faulty answer/ }
const misconfigured: Expected = { status: 502, code: 'upstream_error', says: /operator/ }
const rejected: Expected = { status: 400, code: 'invalid_request' }
const tooLong: Expected = { status: 400, code: 'context_length_exceeded', param: 'messages' }

type Row = [name: string, says: (socket: Socket) => void, expected: Expected, failsOver: boolean]
const rows: Row[] = [
  ['hangs up', (socket) => socket.destroy(), unavailable, true],
  ['500', refuse('500 Oops'), unavailable, true],
  ['500 with a page', whole(`500 ${CANARY}`, 'text/html', `<h1>${CANARY}</h1>`), unavailable, true],
  ['502', refuse('502 Bad Gateway'), unavailable, true],
  ['503 that names a time', refuse('503 Busy', error(), 'Retry-After: 7\r\n'), { ...unavailable, retryAfter: 7 }, true],
  ['529', refuse('529 Overloaded'), unavailable, true],
  ['429', refuse('429 Slow', error(), 'Retry-After: 30\r\n'), { ...unavailable, retryAfter: 30 }, true],
  ['429 with a senseless time', refuse('429 Slow', error(), `Retry-After: ${CANARY}\r\n`), unavailable, true],
  ['says nothing', () => {}, timeout, true],
  ['headers and then nothing', (socket) => socket.write(head()), timeout, true],
  ['a page in place of an answer', whole('200 OK', 'text/html', `<h1>${CANARY}</h1>`), faulty, false],
  ['no content type', whole('200 OK', '', CANARY), faulty, false],
  ['no HTTP', (socket) => socket.write(`${CANARY} is no HTTP\r\n\r\n`), faulty, false],
  ['JSON that is cut off', whole('200 OK', 'application/json', `{"choices":[{"${CANARY}`), faulty, false],
  ['JSON of another kind', whole('200 OK', 'application/json', `{"${CANARY}":1}`), faulty, false],
  ['a chunk that is no JSON', streamOf(`data: ${CANARY}\n\n`), faulty, false],
  ['a stream without an event', streamOf(''), faulty, false],
  ['an error object in place of a chunk', streamOf(`data: ${error()}\n\n`), unavailable, true],
  ['401', refuse('401 No'), misconfigured, false],
  ['402', refuse('402 Pay'), misconfigured, false],
  ['403', refuse('403 No'), misconfigured, false],
  ['404', refuse('404 None'), misconfigured, false],
  ['a redirect', refuse('307 There', error(), `Location: http://${CANARY}/\r\n`), misconfigured, false],
  ['400', refuse('400 No'), rejected, false],
  ['422', refuse('422 No'), rejected, false],
  ['413', refuse('413 Large'), rejected, false],
  ['400 for the length, by its code', refuse('400 No', error('', 'context_length_exceeded')), tooLong, false],
  [
    '400 for the length, by its words',
    refuse('400 No', error("the model's maximum context length is 5")),
    tooLong,
    false,
  ],
]

const gatewayFor = (expected: Expected) => (expected === timeout ? hasty : gateway)

function streamOf(text: string): (socket: Socket) => void {
  return (socket) =>
    socket.end(Buffer.concat([Buffer.from(lastHead()), ...(text ? [piece(text)] : []), Buffer.from(END_OF_BODY)]))
}

describe('before the first byte of an answer', () => {
  test.each(rows)('%s', async (...[, says, expected, failsOver]) => {
    answer = says
    const before = await countCharges()
    for (const stream of [false, true]) {
      const refused = await ask('one', stream, gatewayFor(expected))
      expectRefusal(refused, 'B', expected)
      expectNoCanary(refused)
    }
    expect(await countCharges()).toBe(before)

    const asked = spare.requests.length
    const second = await ask('two', false, gatewayFor(expected))
    if (failsOver) expect([second.status, second.text.includes('spare')]).toEqual([200, true])
    else expectRefusal(second, 'B', expected)
    expect(spare.requests.length - asked).toBe(failsOver ? 1 : 0)
  })

  test('nobody there', async () => {
    expectRefusal(await ask('away', false), 'B', unavailable)
    expectRefusal(await ask('away', true), 'B', unavailable)
    expect((await ask('cover', false)).text).toContain('spare')
    expect((await ask('cover', true)).text).toContain('spare')
  })
})

describe('in mid-answer', () => {
  const begun = (...more: (string | Buffer)[]) =>
    Buffer.concat([head(), say('one'), ...more].map((part) => Buffer.from(part)))
  const broken: Row[] = [
    ['cut off', (socket) => socket.end(begun(END_OF_BODY)), faulty, false],
    ['silent', (socket) => socket.write(begun()), timeout, false],
    ['an error object', (socket) => socket.end(begun(piece(`data: ${error()}\n\n`), END_OF_BODY)), unavailable, false],
    ['no JSON', (socket) => socket.end(begun(piece(`data: ${CANARY}\n\n`), END_OF_BODY)), faulty, false],
    ['gives up', (socket) => socket.end(begun(piece(`data: ${gaveUp}\n\n`), END_OF_BODY)), faulty, false],
  ]
  const gaveUp = '{"choices":[{"delta":{},"finish_reason":"error"}]}'

  test.each(broken)('%s: JSON is refused and free', async (...[, says, expected]) => {
    answer = says
    const before = await countCharges()
    const refused = await ask('two', false, gatewayFor(expected))
    expectRefusal(refused, 'B', expected)
    expectNoCanary(refused)
    expect(await countCharges()).toBe(before)
  })

  test.each(broken)(
    '%s: a stream has what came, one error event, and [DONE]; what came is charged',
    async (...[, says, expected]) => {
      answer = says
      const before = await countCharges()
      const streamed = await ask('two', true, gatewayFor(expected))
      const { retryAfter: _, ...event } = expected
      const pieces = streamed.events.length - 2
      expectErrorEvent(streamed, pieces, event)
      const contents = streamed.events.slice(0, pieces).map((chunk) => JSON.parse(chunk).choices[0].delta.content)
      expect(contents.join('')).toBe('one')
      expectNoCanary(streamed)
      expect(await countCharges()).toBe(before + 1)
    },
  )
})

test('a provider that dies after its first words were passed on: the rest of the stream is one error event', async () => {
  const accepted = Promise.withResolvers<Socket>()
  answer = (socket) => {
    socket.write(Buffer.concat([Buffer.from(head()), say('one')]))
    accepted.resolve(socket)
  }
  const body = JSON.stringify({ model: 'svc/two', messages: [{ role: 'user', content: 'Hello.' }], stream: true })
  const response = await gateway.send(path, { method: 'POST', headers: { Authorization: `Bearer ${key.key}` }, body })
  const reader = response.body?.getReader()
  const first = await reader?.read()
  expect(Buffer.from(first?.value ?? []).toString()).toContain('"content":"one"')
  const socket = await accepted.promise
  socket.destroy()
  let rest = ''
  for (let next = await reader?.read(); next?.done === false; next = await reader?.read()) {
    rest += Buffer.from(next.value).toString()
  }
  expect(rest).toMatch(
    /^data: \{"error":\{[^\n]*"code":"upstream_error"[^\n]*\n\n: svc-cost-microcents=\d+\n\ndata: \[DONE\]\n\n$/,
  )
})

test('an answer that is whole has our id and model, and nothing of the provider beside its text', async () => {
  const more = `Server: ${CANARY}\r\nX-Request-Id: ${CANARY}\r\nSet-Cookie: ${CANARY}\r\n`
  for (const stream of [false, true]) {
    answer = (socket) =>
      socket.end(
        Buffer.concat([
          Buffer.from(head('200 OK', 'text/event-stream', more)),
          say('one'),
          STOP,
          Buffer.from(END_OF_BODY),
        ]),
      )
    const given = await ask('one', stream)
    expect(given.status).toBe(200)
    expect(given.text).toContain('svc/one')
    expectNoCanary(given)
  }
})

test('the operator is told of a wrong credential, and no log line quotes a provider', async () => {
  answer = refuse('401 No')
  await ask('one', false)
  expect(gateway.logs.some((line) => line.includes('"level":"error"') && line.includes('check its base URL'))).toBe(
    true,
  )
  const quoted = gateway.logs.filter((line) => line.replaceAll(`"model":"${CANARY}"`, '').includes(CANARY))
  expect(quoted).toEqual([])
})

function expectNoCanary({ text, headers }: { text: string; headers: Headers }): void {
  expect(text).not.toContain(CANARY)
  expect(JSON.stringify([...headers])).not.toContain(CANARY)
}
