/**
 * A call whose Idempotency-Key another process takes over while its provider answers: nothing is charged for it, its money
 * is free again, and its client is told to ask again, whatever kind of call it is.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { drawText } from '../../src/providers/sandbox/picture.ts'
import { END_OF_BODY, head, piece, type RawServer, rawServer } from '../rawServer.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { type Expected, expectErrorEvent, expectRefusal } from './refusals.ts'

/** The cents that its customer has: no call could be made beside another that holds its cost. */
const CENTS = 20

let gateway: AskedGateway
let provider: RawServer
let answer: (socket: Socket) => void = () => {}
let picture: string
beforeAll(async () => {
  provider = await rawServer((socket) => answer(socket))
  picture = (await drawText(['x'], { width: 64, height: 64 }, 1)).toString('base64')
  const target = 'targets: [{ provider: remote, model: theirs }]'
  gateway = await openAskedGateway({
    settings: `
providers:
  remote: { dialect: openai, base_url: "${provider.url}/v1" }
models:
  - id: svc/chat
    context_length: 4096
    max_output_tokens: 64
    pricing: { input_per_1m_tokens_cents: 0, output_per_1m_tokens_cents: 1000000 }
    ${target}
  - id: svc/words
    modality: embedding
    context_length: 512
    pricing: { input_per_1m_tokens_cents: 1000000 }
    ${target}
  - id: svc/picture
    modality: image
    pricing: { per_image_cents: ${CENTS} }
    ${target}
`,
  })
})
afterAll(async () => {
  await gateway.close()
  provider.stop()
})

const jsonOf = (value: object) => (socket: Socket) => {
  const body = JSON.stringify(value)
  socket.end(
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  )
}
const chatAnswer = (socket: Socket) => {
  const chunk = { choices: [{ delta: { content: 'canary' }, finish_reason: 'stop' }] }
  const usage = { choices: [], usage: { prompt_tokens: 1, completion_tokens: CENTS, total_tokens: CENTS + 1 } }
  const events = [chunk, usage].map((event) => piece(`data: ${JSON.stringify(event)}\n\n`))
  const before = Buffer.from(head('200 OK', 'text/event-stream', 'Connection: close\r\n'))
  socket.end(Buffer.concat([before, ...events, piece('data: [DONE]\n\n'), Buffer.from(END_OF_BODY)]))
}
const pictures = () => ({ data: [{ b64_json: picture }] })
const messages = [{ role: 'user', content: 'x' }]
const vectors = {
  data: [{ index: 0, embedding: [1, 0.5] }],
  usage: { prompt_tokens: 1, total_tokens: 1 },
}

type Row = [name: string, path: string, body: object, answers: (socket: Socket) => void]
const rows: Row[] = [
  ['chat', '/chat/completions', { model: 'svc/chat', messages, max_tokens: CENTS }, chatAnswer],
  ['a stream', '/chat/completions', { model: 'svc/chat', messages, max_tokens: CENTS, stream: true }, chatAnswer],
  ['embeddings', '/embeddings', { model: 'svc/words', input: 'x' }, jsonOf(vectors)],
  ['images', '/images/generations', { model: 'svc/picture', prompt: 'x' }, (socket) => jsonOf(pictures())(socket)],
]
const superseded: Expected = { status: 409, code: 'idempotency_conflict', says: /Another process/ }

test.each(rows)('%s', async (...[name, path, body, answers]) => {
  const customer = await gateway.customer({ cents: CENTS })
  const headers = { 'Idempotency-Key': name }
  answer = (socket) => {
    const takeOver = gateway.database.query(
      'update idempotent_attempts set attempt = gen_random_uuid(), slot = 900 where key_id = $1::uuid returning 1',
      [customer.id],
    )
    void takeOver.then(() => answers(socket))
  }
  const late = await gateway.ask({ path, key: customer, body, headers })
  if ('stream' in body) expectErrorEvent(late, late.events.length - 2, superseded)
  else expectRefusal(late, 'B', { ...superseded, retryAfter: 1 })
  // Of a stream no end, neither in its own words nor the recorded ones.
  expect(late.text).not.toContain('"finish_reason":"stop"')
  const charges = () =>
    gateway.database.query('select 1 from charges where organization_id = $1::uuid', [customer.organizationId])
  expect(await charges()).toEqual([])

  // The other process died too: whoever asks next makes the answer, with the same money.
  await gateway.database.query('delete from idempotent_attempts where key_id = $1::uuid', [customer.id])
  answer = answers
  const good = await gateway.ask({ path, key: customer, body, headers })
  expect([good.status, good.text.includes('"error"')]).toEqual([200, false])
  expect(await charges()).toHaveLength(1)
  const again = await gateway.ask({ path, key: customer, body, headers })
  expect([again.text === good.text, again.headers.get('Idempotency-Replayed')]).toEqual([true, 'true'])
})
