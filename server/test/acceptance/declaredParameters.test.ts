/** Parameters of chat that a model does not take: those that its settings leave out (E5), and those that its provider refuses (C7). */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { END_OF_BODY, head, piece, type RawServer, rawServer } from '../rawServer.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { expectRefusal } from './refusals.ts'

const path = '/chat/completions'
/** Stands in all that the provider says; must not arrive, and must not be logged. */
const CANARY = 'canary-5d0e'

let gateway: AskedGateway
let provider: RawServer
let key: { key: string }

const data = (event: object) => `data: ${JSON.stringify(event)}\n\n`
const ANSWER = Buffer.concat([
  Buffer.from(head('200 OK', 'text/event-stream', 'Connection: close\r\n')),
  piece(data({ choices: [{ delta: { content: 'Hi' }, finish_reason: 'stop' }] })),
  piece(`${data({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 1 } })}data: [DONE]\n\n`),
  Buffer.from(END_OF_BODY),
])

function refusing(param: string, code: string): string {
  const body = JSON.stringify({ error: { message: CANARY, type: 'invalid_request_error', param, code } })
  return `HTTP/1.1 400 No\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`
}

/** The body of a request that the provider got. */
function sentAt(index: number): Record<string, unknown> {
  const request = provider.requests.at(index) ?? ''
  return JSON.parse(request.slice(request.indexOf('\r\n\r\n')))
}

beforeAll(async () => {
  // As OpenAI's newer models: no limit in `max_tokens`, no temperature.
  provider = await rawServer((socket, index) => {
    const sent = sentAt(index)
    if ('max_tokens' in sent) socket.end(refusing('max_tokens', 'unsupported_parameter'))
    else if ('temperature' in sent) socket.end(refusing('temperature', 'unsupported_value'))
    else socket.end(ANSWER)
  })
  const model = (id: string, at: string, more = '', cents = 100) => `
  - id: svc/${id}
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: ${cents}, output_per_1m_tokens_cents: ${cents} }
    targets: [{ provider: ${at}, model: theirs }]${more}`
  const lists = (names: string) => `\n    supported_parameters: [${names}]`
  const settings = `
compat: { max_completion_tokens: true }
providers:
  older: { dialect: openai, base_url: "${provider.url}/v1" }
  newer: { dialect: openai, base_url: "${provider.url}/v1", max_tokens_field: max_completion_tokens }
models:${model('older', 'older')}${model('newer', 'newer')}${model('limited', 'newer', lists('max_tokens'))}
${model('unlimited', 'newer', lists('temperature, stream, stream_options'), 1_000_000)}
`
  gateway = await openAskedGateway({ settings })
  key = await gateway.customer()
})
afterAll(async () => {
  await gateway.close()
  provider.stop()
})

const ask = (model: string, more: object, by = key) => {
  const body = { model: `svc/${model}`, messages: [{ role: 'user', content: 'Hello.' }], ...more }
  return gateway.ask({ path, key: by, body })
}
const preflight = (model: string, by = key) => gateway.ask({ path: `/inference/preflight?model=svc/${model}`, key: by })

async function countCharges(): Promise<bigint | undefined> {
  const [row] = await gateway.database.query<{ count: bigint }>('select count(*) as count from charges')
  return row?.count
}

describe('a parameter that the provider refuses', () => {
  test.each([
    ['max_tokens', { max_tokens: 5 }, 'max_tokens_field: max_completion_tokens'],
    ['temperature', { temperature: 0.5 }, 'supported_parameters'],
  ])('%s: the client reads its name, and the log has the setting that helps', async (name, more, setting) => {
    const answer = await ask('older', more)
    expectRefusal(answer, 'B', { status: 400, code: 'invalid_request', says: new RegExp(`'${name}'.* leave it out`) })
    expect(answer.text).not.toContain(CANARY)
    const advised = gateway.logs.filter((line) => line.includes(setting)).map((line) => JSON.parse(line))
    expect(advised).toMatchObject([{ provider: 'older', model: 'theirs', kind: 'rejected' }])
    expect(gateway.logs.join('\n')).not.toContain(CANARY)
  })

  test('with the setting a limit goes out in the other field alone', async () => {
    expect((await ask('newer', { max_tokens: 5 })).status).toBe(200)
    expect(sentAt(-1)).toMatchObject({ max_completion_tokens: 5 })
    expect(sentAt(-1)).not.toHaveProperty('max_tokens')
  })
})

describe('a parameter that the settings of the model leave out is refused, asked of nobody and not charged', () => {
  const rows: [model: string, more: object, param: string, says: RegExp][] = [
    ['limited', { temperature: 0.5 }, 'temperature', /does not take the parameter 'temperature'; leave it out/],
    ['limited', { temperature: 0 }, 'temperature', /'temperature'/],
    ['limited', { stream: true }, 'stream', /'stream'/],
    ['limited', { stream_options: {} }, 'stream_options', /'stream_options'/],
    ['limited', { temperature: 1, stream: true }, 'stream', /the parameters 'stream', 'temperature'; leave them out/],
    ['unlimited', { max_tokens: 5 }, 'max_tokens', /'max_tokens'/],
    ['unlimited', { max_completion_tokens: 5 }, 'max_completion_tokens', /'max_completion_tokens'/],
  ]
  test.each(rows)('%s: %p', async (model, more, param, says) => {
    const before = [provider.requests.length, await countCharges()]
    const refusal = { status: 400, code: 'unsupported_parameter', param, says }
    expectRefusal(await ask(model, more), 'B', refusal)
    // Before the gates on money (E1).
    expectRefusal(await ask(model, more, await gateway.customer({ cents: 0 })), 'B', refusal)
    expect([provider.requests.length, await countCharges()]).toEqual(before)
  })

  test('and one that it lists, or that asks for nothing, is served', async () => {
    for (const more of [{}, { max_tokens: 5 }, { max_completion_tokens: 5 }, { temperature: null, stream: false }]) {
      expect((await ask('limited', more)).status).toBe(200)
    }
  })
})

test('preflight and a 402 name no max_tokens to a caller of a model that does not take it', async () => {
  const poor = await gateway.customer({ cents: 200 })
  expect((await preflight('unlimited', poor)).json).toMatchObject({
    verdict: 'ok',
    message: 'This call is paid for from your credit.',
  })
  const refused = await ask('unlimited', {}, poor)
  expectRefusal(refused, 'B', { status: 402, code: 'insufficient_balance' })
  expect(refused.text).not.toContain('max_tokens')
})
