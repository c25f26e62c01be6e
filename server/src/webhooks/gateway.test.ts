/** The whole way: an endpoint is made, an event is published, and what arrives is what stock libraries verify. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../test/acceptance/ask.ts'
import type { TestKey } from '../../test/gateway.ts'
import { Stripe, Webhook } from '../../test/packages.ts'
import { type Receiver, startReceiver } from '../../test/webhookReceiver.ts'
import { systemRandom } from '../infra/random.ts'
import { uuidV7 } from '../lib/ids.ts'
import { publishEvent } from './publish.ts'

let gateway: AskedGateway
let receiver: Receiver
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: 'webhooks: { allow: [127.0.0.0/8] }' })
  receiver = await startReceiver()
})
afterAll(async () => {
  receiver.stop()
  await gateway.close()
})

const video = { id: 'video_1', object: 'video', model: 'svc/clip', status: 'completed' }

const PENDING_MOST = 10_000

async function publish({ organizationId }: TestKey, data: object = { video }): Promise<string> {
  const createdAtMs = Date.now()
  const id = uuidV7(createdAtMs, systemRandom())
  await gateway.database.transaction((tx) =>
    publishEvent(tx, { id, organizationId, type: 'video.completed', createdAtMs, data }, PENDING_MOST),
  )
  return id
}

test('a delivery is verified by the library of Stripe, and by that of Standard Webhooks', async () => {
  const key = await gateway.customer()
  const body = { url: `${receiver.url}/hook?a=1`, event_types: ['video.completed'] }
  const made = await gateway.post(key, '/webhook-endpoints', body, { 'Idempotency-Key': 'one' })
  expect(made.status).toBe(201)
  const { secret } = (await made.json()) as { secret: string }
  expect(secret).toMatch(/^[0-9a-f]{64}$/)
  const id = await publish(key, { video: { ...video, model: 'svc/Zürich – 東京' } })
  const [received] = await receiver.until(1)
  if (received === undefined) throw new Error('nothing came')
  const { headers } = received
  expect(received.path).toBe('/hook?a=1')
  expect(headers).toMatchObject({
    'content-type': 'application/json',
    'user-agent': 'Svc-Webhooks/1',
    'svc-event-id': id,
  })
  expect(JSON.parse(received.body)).toEqual({
    id,
    type: 'video.completed',
    created_at: expect.stringMatching(/^\d{4}-.*Z$/),
    data: { video: { ...video, model: 'svc/Zürich – 東京' } },
  })
  const stripe = new Stripe('sk_test_none')
  const event = await stripe.webhooks.constructEventAsync(received.body, headers['svc-signature'] ?? '', secret)
  expect(event.id).toBe(id)
  expect(new Webhook(secret, { format: 'raw' }).verify(received.body, headers)).toMatchObject({ id })
  const asBase64 = `whsec_${Buffer.from(secret).toString('base64')}`
  expect(new Webhook(asBase64).verify(received.body, headers)).toMatchObject({ id })
  const changed = stripe.webhooks.constructEventAsync(`${received.body} `, headers['svc-signature'] ?? '', secret)
  expect(changed).rejects.toThrow()
})
