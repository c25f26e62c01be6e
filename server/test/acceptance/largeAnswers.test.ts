/** Large answers through the whole gateway: the memory that they take, give back, and wait for. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { drawText } from '../../src/providers/sandbox/picture.ts'
import { type Gateway, openGateway } from '../gateway.ts'
import { metric } from '../metricsPage.ts'

/** As many as may wait for memory. */
const WAITING_MOST = 64
const IMAGES_MOST_BYTES = 128 << 20

let gateway: Gateway
let provider: Server
let image: string
let announcedBytes: number | null = null

beforeAll(async () => {
  const drawn = await drawText(['large'], { width: 64, height: 64 }, 1)
  // Bytes behind the end of a PNG are nothing to anybody.
  image = Buffer.concat([drawn, Buffer.alloc(3_000_000)]).toString('base64')
  provider = createServer(async (request, response) => {
    for await (const _ of request);
    const text = JSON.stringify({ data: [{ b64_json: image }, { b64_json: 'none' }, { b64_json: image }] })
    response.writeHead(200, {
      'Content-Type': 'application/json',
      ...(announcedBytes === null ? {} : { 'Content-Length': announcedBytes }),
    })
    if (announcedBytes === null) response.end(text)
    else response.write('{')
  })
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve))
  gateway = await openGateway({
    settings: `
providers:
  remote: { dialect: openai, base_url: "http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1" }
models:
  - id: svc/i
    modality: image
    pricing: { per_image_cents: 1 }
    targets: [{ provider: remote, model: r }]
`,
  })
})
afterAll(async () => {
  await gateway?.close()
  provider.closeAllConnections()
  provider.close()
})

test('a large answer is in memory until its client has read it, or has left', async () => {
  const key = await gateway.customer()
  const ask = () => gateway.post(key, '/images/generations', { model: 'svc/i', prompt: 'x', n: 3 })
  const read = await ask()
  expect(await metric(gateway.app, 'large_answer_bytes')).toBeGreaterThan(2 * image.length)
  const answer = JSON.parse(await read.text())
  expect(answer.usage).toEqual({ image_count: 2 })
  expect(answer.data.map((each: { b64_json: string }) => each.b64_json === image)).toEqual([true, true])
  expect(await metric(gateway.app, 'large_answer_bytes')).toBe(0)
  const left = await ask()
  await left.body?.cancel()
  expect(await metric(gateway.app, 'large_answer_bytes')).toBe(0)
})

test('answers that one organization does not read keep no memory from another', async () => {
  const [filling, other] = [await gateway.customer({ cents: 10_000 }), await gateway.customer()]
  const ask = (key: typeof other) => gateway.post(key, '/images/generations', { model: 'svc/i', prompt: 'x', n: 3 })
  const unread: Response[] = []
  const asked = Array.from({ length: 16 }, async () => unread.push(await ask(filling)))
  while (unread.length === 0 || (await metric(gateway.app, 'waiting_large_answers')) !== asked.length - unread.length) {
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(unread.length).toBeLessThan(asked.length)
  const { usage } = JSON.parse(await (await ask(other)).text())
  expect(usage).toEqual({ image_count: 2 })
  expect(await metric(gateway.app, 'waiting_large_answers')).toBe(asked.length - unread.length)
  for (let index = 0; index < asked.length; index += 1) {
    while (unread.length <= index) await new Promise((resolve) => setImmediate(resolve))
    await unread[index]?.body?.cancel()
  }
  await Promise.all(asked)
  expect([await metric(gateway.app, 'large_answer_bytes'), await metric(gateway.app, 'waiting_large_answers')]).toEqual(
    [0, 0],
  )
})

test('where there is no memory answers wait; where too many wait they are refused, and nothing is charged', async () => {
  const key = await gateway.customer()
  announcedBytes = IMAGES_MOST_BYTES
  const leaving = new AbortController()
  const ask = () =>
    gateway.send('/images/generations', {
      method: 'POST',
      headers: { Authorization: `Bearer ${key.key}` },
      body: JSON.stringify({ model: 'svc/i', prompt: 'x' }),
      signal: leaving.signal,
    })
  // One has all of the memory.
  const open = Array.from({ length: 1 + WAITING_MOST }, ask)
  while ((await metric(gateway.app, 'waiting_large_answers')) < WAITING_MOST)
    await new Promise((resolve) => setImmediate(resolve))
  const refused = await ask()
  expect([refused.status, refused.headers.get('Retry-After')]).toEqual([503, '5'])
  expect(await refused.json()).toMatchObject({ error: { code: 'upstream_unavailable' } })
  // All of their requests were written: who leaves now changes nothing. The server then breaks off.
  leaving.abort()
  await new Promise((resolve) => setImmediate(resolve))
  expect(await metric(gateway.app, 'waiting_large_answers')).toBe(WAITING_MOST)
  provider.closeAllConnections()
  await Promise.all(open)
  expect([await metric(gateway.app, 'large_answer_bytes'), await metric(gateway.app, 'waiting_large_answers')]).toEqual(
    [0, 0],
  )
  const charges = await gateway.database.query('select id from charges where organization_id = $1', [
    key.organizationId,
  ])
  expect(charges).toEqual([])
})
