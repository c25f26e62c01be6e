/** A provider's connection that was used before and breaks under a call: one attempt, one charge, and no image or video made twice. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import type { TestKey } from '../customer.ts'
import { metric } from '../metricsPage.ts'
import { type RawServer, rawServer } from '../rawServer.ts'
import { until } from '../until.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'

const PRICED = `
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }
    targets: [{ provider: server, model: m }]`

let gateway: AskedGateway
let server: RawServer
/** Requests that each connection has carried. */
const carried = new WeakMap<Socket, number>()

/** Answers the first request of a connection and breaks under the second. */
function answer(socket: Socket, index: number): void {
  const count = (carried.get(socket) ?? 0) + 1
  carried.set(socket, count)
  if (count > 1) return void socket.resetAndDestroy()
  const body = JSON.stringify(answerTo(server.requests[index] ?? ''))
  socket.write(`HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
}

function answerTo(request: string): object {
  if (request.includes('/embeddings')) {
    return { data: [{ index: 0, embedding: [0.5, 0.5] }], usage: { prompt_tokens: 6, total_tokens: 6 } }
  }
  if (request.includes('/images/')) return { data: [{ b64_json: PICTURE }] }
  return {
    choices: [{ index: 0, message: { content: 'Hello there.' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 6, completion_tokens: 3, total_tokens: 9 },
  }
}

/** One grey pixel. */
const PICTURE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=='

beforeAll(async () => {
  server = await rawServer(answer)
  gateway = await openAskedGateway({
    settings: `
providers:
  server: { dialect: openai, base_url: "${server.url}/v1" }
models:
  - id: svc/talk${PRICED}
  - id: svc/words
    modality: embedding
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100 }
    targets: [{ provider: server, model: m }]
  - id: svc/picture
    modality: image
    pricing: { per_image_cents: 4 }
    targets: [{ provider: server, model: m }]
  - id: svc/film
    modality: video
    pricing: { per_video_second_cents: 4 }
    parameters: [{ name: seconds, type: int, min: 1, max: 4, default: 2 }]
    targets: [{ provider: server, model: m }]
`,
  })
})
afterAll(async () => {
  await gateway.close()
  server.stop()
})

async function attempts(outcome: string): Promise<number> {
  const name = `provider_attempt_duration_seconds_count{provider="server",outcome="${outcome}"}`
  return (await metric(gateway.app, name)) || 0
}

const chat = { model: 'svc/talk', max_tokens: 8, messages: [{ role: 'user', content: 'Hello.' }] }

async function modelsCharged({ organizationId }: TestKey): Promise<string[]> {
  const charges = await gateway.database.query<{ model: string }>(
    'select model from named_charges c where organization_id = $1::uuid order by admitted_at, c.id',
    [organizationId],
  )
  return charges.map(({ model }) => model)
}

/** Asks for something on a connection that has carried a request, and says how often the server was asked for it. */
async function ask(path: string, body: object) {
  const key = await gateway.customer()
  await gateway.ask({ path: '/embeddings', key, body: { model: 'svc/words', input: 'to connect' } })
  const before = { requests: server.requests.length, answered: await attempts('answered') }
  const failedBefore = await attempts('unavailable')
  const { status } = await gateway.ask({ path, key, body })
  const charged = await modelsCharged(key)
  return {
    status,
    charged: charged.slice(1),
    requests: server.requests.length - before.requests,
    answered: (await attempts('answered')) - before.answered,
    failed: (await attempts('unavailable')) - failedBefore,
  }
}

test.each([
  ['a whole chat', '/chat/completions', chat],
  ['a streamed chat', '/chat/completions', { ...chat, stream: true }],
  ['embeddings', '/embeddings', { model: 'svc/words', input: 'Hello.' }],
])('%s: sent once more, one attempt that was answered, charged once', async (_name, path, body) => {
  expect(await ask(path, body)).toEqual({
    status: 200,
    charged: [body.model],
    requests: 2,
    answered: 1,
    failed: 0,
  })
})

test('images: nobody knows whether they were made, so they are not asked for again, and not charged', async () => {
  expect(await ask('/images/generations', { model: 'svc/picture', prompt: 'a hill' })).toEqual({
    status: 503,
    charged: [],
    requests: 1,
    answered: 0,
    failed: 1,
  })
})

test('a video: nobody knows whether its job was taken, so it fails, is not sent again, and costs nothing', async () => {
  const key = await gateway.customer()
  await gateway.ask({ path: '/embeddings', key, body: { model: 'svc/words', input: 'to connect' } })
  const before = server.requests.length
  const { json } = await gateway.ask({ path: '/videos', key, body: { model: 'svc/film', prompt: 'a hill' } })
  const { id } = json as { readonly id: string }
  let job: unknown
  await until(async () => {
    job = (await gateway.ask({ path: `/videos/${id}`, key })).json
    return (job as { readonly status: string }).status === 'failed'
  })
  expect(job).toMatchObject({ error: 'upstream_error', cost_cents: null })
  expect(server.requests.slice(before).map((request) => request.split(' HTTP')[0])).toEqual(['POST /v1/videos'])
  expect(await modelsCharged(key)).toEqual(['svc/words'])
  const holds = await gateway.database.query('select 1 from holds where organization_id = $1::uuid', [
    key.organizationId,
  ])
  expect(holds).toEqual([])
})
