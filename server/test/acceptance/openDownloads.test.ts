/** K4: a download keeps a place of its key until its last byte has left, or its client has, or takes too little. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdir, open } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { systemRandom } from '../../src/infra/random.ts'
import { uuidV7 } from '../../src/lib/ids.ts'
import { MINUTE_MS } from '../../src/lib/time.ts'
import { TurnedClock } from '../clock.ts'
import type { TestKey } from '../customer.ts'
import { type OpenPort, openPortWith } from '../faults/openPort.ts'

const SETTINGS = `
open_requests_per_key: 2
providers:
  sandbox: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited }
models:
  - id: svc/demo
    context_length: 8192
    pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }
    targets: [{ provider: sandbox, model: demo }]
`
const CHAT = { model: 'svc/demo', messages: [{ role: 'user', content: 'Hello' }] }
/** More than the system keeps for a client that does not read. */
const BYTES = 64 << 20

const clock = new TurnedClock(Date.UTC(2030, 0, 1))
let port: OpenPort
let key: TestKey
let path: string
beforeAll(async () => {
  port = await openPortWith(SETTINGS, clock)
  key = await port.gateway.customer()
  const id = uuidV7(clock.now(), systemRandom())
  path = `/v1/videos/${id}/content`
  const folder = join(port.gateway.dataDirectory, 'artifacts', 'videos')
  await mkdir(folder, { recursive: true })
  // Without its bytes on the disk: a hole.
  const file = await open(join(folder, `video-${id}-1.mp4`), 'w')
  await file.truncate(BYTES)
  await file.close()
  await port.gateway.database.query(
    `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, seconds, status,
       completed_at, expires_at, artifact, artifact_bytes)
     values ($1::uuid, $2::uuid, $3::uuid, 'epoch', 'svc/film', 'serverless', '', 1, 4, 'completed', $6::timestamptz,
       $6::timestamptz + interval '1 day', $4, $5::bigint)`,
    [id, key.organizationId, key.id, `video-${id}-1.mp4`, BYTES, new Date(clock.now())],
  )
})
afterAll(() => port.close())

const download = () =>
  fetch(`http://127.0.0.1:${port.port}${path}`, { headers: { Authorization: `Bearer ${key.key}` } })

/** Asks for the file, and takes nothing of it. */
function ask(): Socket {
  const socket = connect(port.port, '127.0.0.1')
  socket.pause()
  socket.on('error', () => {})
  socket.write(`GET ${path} HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer ${key.key}\r\n\r\n`)
  return socket
}

async function untilOpen(count: number): Promise<void> {
  for (;;) {
    const page = await (await port.gateway.app.handleAdmin(new Request('http://admin.test/metrics'))).text()
    if (Number(/^tollgate_open_requests (\d+)$/m.exec(page)?.[1]) === count) return
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test('a key has as many downloads and calls open as it may have in all; who leaves gives the place back', async () => {
  const clients = [ask(), ask()]
  await untilOpen(2)
  const refused = await download()
  expect([refused.status, await refused.json()]).toMatchObject([429, { error: { code: 'stream_limit_exceeded' } }])
  expect((await port.chat(key, CHAT)).status).toBe(429)
  expect((await port.chat(await port.gateway.customer(), CHAT)).status).toBe(200)
  clients[0]?.destroy()
  await untilOpen(1)
  const whole = await download()
  expect([whole.status, (await whole.bytes()).byteLength]).toEqual([200, BYTES])
  await untilOpen(1)
  clients[1]?.destroy()
  await untilOpen(0)
})

test('a client that takes less than a MiB in a minute is cut off, and its place is free', async () => {
  const client = ask()
  await untilOpen(1)
  // Bytes that the system keeps for it may leave first: then its minute begins anew.
  const cut = untilOpen(0)
  for (let minutes = 0; minutes < 3; minutes += 1) {
    await new Promise((resolve) => setImmediate(resolve))
    await clock.turn(MINUTE_MS)
  }
  await cut
  client.destroy()
})

test('HEAD says its length, takes nothing of it, and keeps no place', async () => {
  const head = await fetch(`http://127.0.0.1:${port.port}${path}`, {
    method: 'HEAD',
    headers: { Authorization: `Bearer ${key.key}` },
  })
  expect([head.status, head.headers.get('Content-Length')]).toEqual([200, `${BYTES}`])
  await untilOpen(0)
})
