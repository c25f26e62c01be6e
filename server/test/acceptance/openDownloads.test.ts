/** K4: a download keeps a place of its key until its last byte has left, or its client has, or takes too little. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { revokeKey } from '../../src/identity/keys/revoke.ts'
import { MINUTE_MS, SECOND_MS } from '../../src/lib/time.ts'
import { TurnedClock } from '../clock.ts'
import type { TestKey } from '../customer.ts'
import { makeHollowVideo } from '../hollowVideo.ts'
import { untilMetric } from '../metricsPage.ts'
import { type OpenPort, openPortWith } from '../openPort.ts'
import { CHAT, SETTINGS as SANDBOX } from '../sandboxChat.ts'

const SETTINGS = `open_requests_per_key: 2
${SANDBOX}`
/** More than the system keeps for a client that does not read. */
const BYTES = 64 << 20

const clock = new TurnedClock(Date.UTC(2030, 0, 1))
let port: OpenPort
let key: TestKey
let path: string
beforeAll(async () => {
  port = await openPortWith(SETTINGS, clock)
  key = await port.gateway.customer()
  path = await makeHollowVideo(port.gateway, key, BYTES, clock.now())
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

const untilOpen = (count: number) => untilMetric(port.gateway.app, 'open_requests', count)

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

test('a download ends with its key, although its client takes nothing more', async () => {
  const other = await port.gateway.customer()
  const content = await makeHollowVideo(port.gateway, other, BYTES, clock.now())
  const begun = await fetch(`http://127.0.0.1:${port.port}${content}`, {
    headers: { Authorization: `Bearer ${other.key}` },
  })
  await untilOpen(1)
  await revokeKey({ database: port.gateway.database, clock }, other.id)
  const ended = untilOpen(0)
  await clock.turn(2 * SECOND_MS)
  await ended
  await expect(begun.bytes()).rejects.toThrow()
})

test('HEAD says the length of all of it, whatever range is asked for, takes nothing of it, and keeps no place', async () => {
  const head = await fetch(`http://127.0.0.1:${port.port}${path}`, {
    method: 'HEAD',
    headers: { Authorization: `Bearer ${key.key}`, Range: 'bytes=0-9' },
  })
  expect([head.status, head.headers.get('Content-Length')]).toEqual([200, `${BYTES}`])
  await untilOpen(0)
})
