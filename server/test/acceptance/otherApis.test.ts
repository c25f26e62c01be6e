/** Anthropic's and Google's APIs behind the gateway: calls in OpenAI's form, charged to the micro-cent, errors in our words. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import type { TestKey } from '../customer.ts'
import { END_OF_BODY, head, piece, type RawServer, rawServer } from '../rawServer.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { type Counts, lastHead, OTHER_APIS, streamOf } from './otherApis.ts'
import { type Expected, expectErrorEvent, expectRefusal } from './refusals.ts'

/** Stands in everything that the provider says; must not arrive, and must not be logged. */
const CANARY = 'canary-51ab'
const path = '/chat/completions'
const COUNTS: Counts = { fresh: 40, cached: 1_000, completion: 12 }
/** Long enough for as many tokens: no text has more of them than bytes. */
const QUESTION = 'Hello. '.repeat(150)
/** Micro-cents for a million tokens. */
const PRICE = { input: 300_000_000n, cached: 30_000_000n, output: 1_500_000_000n }

const unavailable: Expected = { status: 503, code: 'upstream_unavailable', retryAfter: 1 }
const faulty: Expected = { status: 502, code: 'upstream_error', says: /faulty answer/ }
const misconfigured: Expected = { status: 502, code: 'upstream_error', says: /operator/ }
const rejected: Expected = { status: 400, code: 'invalid_request' }
const tooLong: Expected = { status: 400, code: 'context_length_exceeded', param: 'messages' }

for (const api of OTHER_APIS) {
  describe(api.dialect, () => {
    let gateway: AskedGateway
    let provider: RawServer
    let spare: RawServer
    let key: TestKey
    let answer: (socket: Socket) => void = () => {}

    beforeAll(async () => {
      provider = await rawServer((socket) => answer(socket))
      spare = await rawServer((socket) => socket.end(whole('spare')))
      const model = (id: string, targets: readonly string[]) => `
  - id: svc/${id}
    context_length: 4096
    max_output_tokens: 64
    pricing:
      input_per_1m_tokens_microcents: ${PRICE.input}
      output_per_1m_tokens_microcents: ${PRICE.output}
      cached_input_per_1m_tokens_microcents: ${PRICE.cached}
    targets: [${targets.map((name) => `{ provider: ${name}, model: theirs }`).join(', ')}]`
      // The target that is asked first must not follow from the rows before: see providerFailures.test.ts.
      const settings = `
breaker_failures: 1000000
providers:
  first: { dialect: ${api.dialect}, base_url: "${provider.url}${api.basePath}", api_key_env: THEIR_KEY }
  spare: { dialect: ${api.dialect}, base_url: "${spare.url}${api.basePath}" }
  nobody: { dialect: ${api.dialect}, base_url: "http://127.0.0.1:1${api.basePath}" }
models:${model('one', ['first'])}${model('two', ['first', 'spare'])}${model('away', ['nobody'])}
`
      gateway = await openAskedGateway({ settings, environment: { THEIR_KEY: `${CANARY}-key` } })
      key = await gateway.customer()
    }, 60_000)
    afterAll(async () => {
      await gateway.close()
      provider.stop()
      spare.stop()
    })

    const whole = (text: string) => streamOf(api.begin(COUNTS), api.say(text), api.end(api.reasons.stop, COUNTS))
    const says = (...parts: (Buffer | string)[]) => {
      answer = (socket) => socket.end(Buffer.concat(parts.map((part) => Buffer.from(part))))
    }
    const refuses = (status: number, message: string, more = '') => {
      const body = api.refusal(status, `${message} ${CANARY}`)
      const fields = `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${more}`
      says(`HTTP/1.1 ${status} X\r\n${fields}Connection: close\r\n\r\n${body}`)
    }
    const ask = (more: object = {}, model = 'one') =>
      gateway.ask({
        path,
        key,
        body: { model: `svc/${model}`, messages: [{ role: 'user', content: QUESTION }], ...more },
      })
    const charges = (organizationId: string) =>
      gateway.database.query<Record<string, unknown>>(
        `select prompt_tokens as prompt, cached_prompt_tokens as cached, completion_tokens as completion,
                estimated, outcome, cost_microcents as cost
           from named_charges where organization_id = $1 order by admitted_at, id`,
        [organizationId],
      )
    const countCharges = async () => (await charges(key.organizationId)).length

    test('an answer, whole and streamed, costs its tokens, the cached ones at their rate', async () => {
      key = await gateway.customer()
      says(streamOf(api.begin(COUNTS), api.say('Good '), api.say('day.'), api.end(api.reasons.stop, COUNTS)))
      const json = await ask()
      expect(json.json).toMatchObject({
        model: 'svc/one',
        choices: [{ message: { role: 'assistant', content: 'Good day.' }, finish_reason: 'stop' }],
        usage: {
          prompt_tokens: 1_040,
          completion_tokens: 12,
          total_tokens: 1_052,
          prompt_tokens_details: { cached_tokens: 1_000 },
        },
      })
      const streamed = await ask({ stream: true })
      const chunks = streamed.events.slice(0, -1).map((data) => JSON.parse(data))
      expect(chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join('')).toBe('Good day.')
      expect(chunks.at(-1)).toMatchObject({
        choices: [{ finish_reason: 'stop' }],
        usage: { prompt_tokens: 1_040, completion_tokens: 12 },
      })
      const cost = (40n * PRICE.input + 1_000n * PRICE.cached + 12n * PRICE.output) / 1_000_000n
      const row = { prompt: 1_040n, cached: 1_000n, completion: 12n, estimated: false, outcome: 'completed', cost }
      expect(await charges(key.organizationId)).toEqual([row, row])
    })

    test('a call goes out in its words, and its credential in a header of its own', async () => {
      says(whole('x'))
      await ask({ max_tokens: 5, temperature: 0.5 })
      const request = provider.requests.at(-1) ?? ''
      expect(request.split('\r\n')[0]).toBe(api.requestLine)
      expect(request).toMatch(new RegExp(`^${api.keyHeader}: ${CANARY}-key\\r$`, 'im'))
      expect(request).not.toMatch(/^authorization:/im)
      expect(request.match(new RegExp(CANARY, 'g'))).toHaveLength(1)
      const body = request.slice(request.indexOf('\r\n\r\n'))
      expect(body).toContain(`"text":"${QUESTION}"`)
      expect(body).toMatch(/"(max_tokens|maxOutputTokens)":5\b/)
      expect(body).toContain('"temperature":0.5')
    })

    test('an answer at its limit, and one that a filter cut, say so', async () => {
      const counts = { ...COUNTS, completion: 3 }
      says(streamOf(api.begin(counts), api.say('Good'), api.end(api.reasons.length, counts)))
      expect((await ask({ max_tokens: 3 })).json).toMatchObject({ choices: [{ finish_reason: 'length' }] })
      says(streamOf(api.begin(counts), api.end(api.reasons.filter, counts)))
      expect((await ask()).json).toMatchObject({
        choices: [{ finish_reason: 'content_filter', message: { content: '' } }],
      })
    })

    const refusals: [name: string, () => void, Expected, failsOver: boolean][] = [
      ['529', () => refuses(529, 'Overloaded'), unavailable, true],
      ['503', () => refuses(503, 'overloaded'), unavailable, true],
      ['500', () => refuses(500, 'oops'), unavailable, true],
      ['429', () => refuses(429, 'slow', 'Retry-After: 30\r\n'), { ...unavailable, retryAfter: 30 }, true],
      ['hangs up', () => (answer = (socket) => socket.destroy()), unavailable, true],
      ['an error event first', () => says(streamOf(api.begin(COUNTS), api.errorEvent(529, CANARY))), unavailable, true],
      ['401', () => refuses(401, 'key'), misconfigured, false],
      ['404', () => refuses(404, 'model'), misconfigured, false],
      ['400', () => refuses(400, 'roles'), rejected, false],
      ['413', () => refuses(413, 'large'), rejected, false],
      ['too long', () => refuses(400, 'prompt is too long: it exceeds the maximum number of tokens'), tooLong, false],
      ['HTML', () => says(lastHead('text/html'), piece(`<h1>${CANARY}</h1>`), END_OF_BODY), faulty, false],
      ['JSON', () => says(lastHead('application/json'), piece('{}'), END_OF_BODY), faulty, false],
      ['no HTTP', () => (answer = (socket) => socket.write(`${CANARY} is no HTTP\r\n\r\n`)), faulty, false],
      ['no event', () => says(streamOf()), faulty, false],
      ['no JSON', () => says(streamOf(piece(`data: ${CANARY}\n\n`))), faulty, false],
      ['a gzip bomb', () => says(lastHead('text/event-stream', 'Content-Encoding: gzip\r\n'), bomb), faulty, false],
      ['a line without end', () => says(lastHead(), ...endless), faulty, false],
      ['an event of endless lines', () => says(lastHead(), ...endlessLines), faulty, false],
    ]
    const bomb = piece(gzipSync(Buffer.alloc(20_000_000)))
    const megabyte = 'x'.repeat(1 << 20)
    const endless = new Array<Buffer>(6).fill(piece(`data: ${megabyte}`))
    const endlessLines = new Array<Buffer>(6).fill(piece(`data: ${megabyte}\n`))

    test.each(refusals)('before an answer: %s', async (...[, act, expected, failsOver]) => {
      act()
      const before = await countCharges()
      for (const stream of [false, true]) {
        const refused = await ask({ stream })
        expectRefusal(refused, 'B', expected)
        expect(refused.text).not.toContain(CANARY)
      }
      expect(await countCharges()).toBe(before)
      const asked = spare.requests.length
      const second = await ask({}, 'two')
      if (failsOver) expect([second.status, second.text.includes('spare')]).toEqual([200, true])
      else expectRefusal(second, 'B', expected)
      expect(spare.requests.length - asked).toBe(failsOver ? 1 : 0)
    })

    test('nobody there', async () => {
      expectRefusal(await ask({}, 'away'), 'B', unavailable)
    })

    const begun = (...more: Buffer[]) => streamOf(api.begin(COUNTS), api.say('one'), ...more)
    const broken: [name: string, Buffer, Expected][] = [
      ['cut off', begun(), faulty],
      ['cut off in mid-event', begun(piece(api.say('two').toString().slice(4, 40))), faulty],
      ['an error event', begun(api.errorEvent(529, CANARY)), unavailable],
      ['no JSON', begun(piece(`data: ${CANARY}\n\n`)), faulty],
    ]
    test.each(broken)('in mid-answer: %s', async (...[, bytes, expected]) => {
      says(bytes)
      const before = await countCharges()
      expectRefusal(await ask({}, 'two'), 'B', expected)
      expect(await countCharges()).toBe(before)
      const streamed = await ask({ stream: true }, 'two')
      const { retryAfter: _, ...event } = expected
      expectErrorEvent(streamed, streamed.events.length - 2, event)
      expect(streamed.text).toContain('"content":"one"')
      expect(streamed.text).not.toContain(CANARY)
      expect(await countCharges()).toBe(before + 1)
    })

    test('invalid UTF-8 becomes U+FFFD and breaks nothing off', async () => {
      const bytes = whole('a?b')
      bytes[bytes.indexOf('a?b') + 1] = 0xff
      says(bytes)
      expect((await ask()).json).toMatchObject({ choices: [{ message: { content: 'a\ufffdb' } }] })
    })

    test('a client that hangs up cancels the provider and pays for what came', async () => {
      key = await gateway.customer()
      await new Promise<void>((resolve) => {
        answer = (socket) => {
          socket.write(Buffer.concat([Buffer.from(head()), api.begin(COUNTS), api.say('one two three')]))
          socket.once('close', () => resolve())
        }
        const leaving = new AbortController()
        const body = JSON.stringify({ model: 'svc/one', messages: [{ role: 'user', content: 'Hi' }], stream: true })
        const init = { method: 'POST', headers: { Authorization: `Bearer ${key.key}` }, body, signal: leaving.signal }
        const leave = async () => {
          const reader = (await gateway.send(path, init)).body?.getReader()
          await reader?.read()
          leaving.abort()
        }
        leave().catch(() => {})
      })
      let rows = await charges(key.organizationId)
      while (rows.length === 0) {
        await new Promise((resolve) => setImmediate(resolve))
        rows = await charges(key.organizationId)
      }
      expect(rows).toMatchObject([{ outcome: 'cancelled', estimated: true, completion: 3n }])
    })

    test('no log line holds a credential or what a provider wrote', () => {
      expect(gateway.logs.filter((line) => line.includes(CANARY))).toEqual([])
    })
  })
}

test('a temperature that the API has no word for is refused before anything is sent', async () => {
  const provider = await rawServer(() => {})
  const gateway = await openAskedGateway({
    settings: `
providers: { claude: { dialect: anthropic, base_url: "${provider.url}/v1" } }
models:
  - id: svc/claude
    context_length: 4096
    max_output_tokens: 64
    pricing: { input_per_1m_tokens_cents: 300, output_per_1m_tokens_cents: 1500 }
    targets: [{ provider: claude, model: theirs }]
`,
  })
  const body = { model: 'svc/claude', messages: [{ role: 'user', content: 'Hi' }], temperature: 1.5 }
  const refused = await gateway.ask({ path, key: await gateway.customer(), body })
  expectRefusal(refused, 'B', { status: 400, code: 'invalid_request', says: /from 0 to 1/ })
  expect(provider.requests).toEqual([])
  await gateway.close()
  provider.stop()
})

test('a prompt that a filter blocks is refused in our words, and costs nothing', async () => {
  const blocked = { promptFeedback: { blockReason: 'PROHIBITED_CONTENT' }, usageMetadata: { promptTokenCount: 9 } }
  const provider = await rawServer((socket) => socket.end(streamOf(piece(`data: ${JSON.stringify(blocked)}\n\n`))))
  const gateway = await openAskedGateway({
    settings: `
providers: { google: { dialect: gemini, base_url: "${provider.url}/v1beta" } }
models:
  - id: svc/gemini
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 300, output_per_1m_tokens_cents: 1500 }
    targets: [{ provider: google, model: theirs }]
`,
  })
  const key = await gateway.customer()
  const body = { model: 'svc/gemini', messages: [{ role: 'user', content: 'Hi' }] }
  const refused = await gateway.ask({ path, key, body })
  expectRefusal(refused, 'B', { status: 400, code: 'invalid_request', says: /blocked this prompt/ })
  expect(await gateway.database.query('select 1 from charges', [])).toEqual([])
  await gateway.close()
  provider.stop()
})
