/** A gateway killed in the middle of an attempt: what it had in hand is sent again, by whoever comes next. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { startServer, type TestServer } from '../server.ts'
import { type Receiver, startReceiver } from '../webhookReceiver.ts'

setDefaultTimeout(180_000)

const ALLOW = { environment: { TOLLGATE_WEBHOOK_ALLOW: '127.0.0.0/8' } }

let server: TestServer
let receiver: Receiver
beforeAll(async () => {
  server = await startServer(ALLOW)
  // The first request is never answered.
  receiver = await startReceiver((response, _received, index) => {
    if (index > 0) response.writeHead(204).end()
  })
})
afterAll(async () => {
  receiver.stop()
  await server.remove()
})

test('SIGKILL during an attempt: the same event arrives again within a minute, signed anew, and no attempt is counted for it', async () => {
  const key = server.firstKey
  const ask = async (path: string, init: RequestInit = {}) => {
    const headers = { Authorization: `Bearer ${key}`, 'Idempotency-Key': crypto.randomUUID() }
    const response = await fetch(`${server.url.replace(/\/v1$/, '')}${path}`, { headers, ...init })
    return (await response.json()) as { id: string; data: { state: string; attempts: { status: number }[] }[] }
  }
  const body = JSON.stringify({ url: receiver.url, event_types: ['video.completed'] })
  const { id } = await ask('/v1/webhook-endpoints', { method: 'POST', body })
  await ask(`/manage/v1/webhook-endpoints/${id}/test`, { method: 'POST' })
  await receiver.until(1)
  await server.kill()
  server = await startServer({ ...ALLOW, dataDir: server.dataDir })
  const [first, second] = await receiver.until(2)
  expect(second?.body).toBe(first?.body ?? '')
  expect(second?.headers['svc-event-id']).toBe(first?.headers['svc-event-id'] ?? '')
  expect(second?.headers['svc-signature']).not.toBe(first?.headers['svc-signature'])
  expect((second?.atMs ?? 0) - (first?.atMs ?? 0)).toBeLessThan(60_000)
  for (;;) {
    const [delivery] = (await ask('/manage/v1/deliveries')).data
    if (delivery?.state !== 'delivered') continue
    expect(delivery.attempts.map(({ status }) => status)).toEqual([204])
    break
  }
})
