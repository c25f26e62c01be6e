/** Clients that stop reading: others go on, memory is bounded, and the provider is held back. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { TurnedClock } from '../clock.ts'
import { openDirectory } from '../dataDirectory.ts'
import { openPort } from '../openPort.ts'
import { startServer, type TestServer } from '../server.ts'
import { postUnread } from '../unreadRequest.ts'
import { type EndlessProvider, startEndlessProvider } from './endlessProvider.ts'

const STALLED = 12
const LIMIT_MS = 60_000

let provider: EndlessProvider
let server: TestServer
const sockets: Socket[] = []

beforeAll(async () => {
  provider = await startEndlessProvider()
  server = await startServer({ settings: settingsFor(provider.url) })
}, LIMIT_MS)

afterAll(async () => {
  for (const socket of sockets) socket.destroy()
  await server.remove()
  provider.stop()
}, LIMIT_MS)

function settingsFor(url: string): string {
  const pricing = 'pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }'
  return `
providers:
  simulated: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited }
  endless: { dialect: openai, base_url: "${url}" }
models:
  - { id: svc/endless, context_length: 100000000, ${pricing}, targets: [{ provider: endless, model: any }] }
  - { id: svc/sandbox, context_length: 100000, ${pricing}, targets: [{ provider: simulated, model: any }] }
`
}

/** Asks for an endless stream and never reads a byte of it. */
function stall(port: number, key: string, model: string): Socket {
  return postUnread({ port, key }, '/chat/completions', {
    model,
    stream: true,
    messages: [{ role: 'user', content: 'Go on' }],
  })
}

/** A well-behaved client's whole answer; resolves to the number of its tokens. */
async function completeOther(): Promise<number> {
  const response = await fetch(`${server.url}/chat/completions`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${server.firstKey}` },
    body: JSON.stringify({
      model: 'svc/sandbox',
      stream: true,
      messages: [{ role: 'user', content: '[[sandbox tokens=200]] Tell me.' }],
    }),
  })
  const text = await response.text()
  expect(text).toEndWith('data: [DONE]\n\n')
  return Number(/"completion_tokens":(\d+)/.exec(text)?.[1])
}

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${server.adminUrl}/metrics`)).text()
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
}

test(
  'others are served, the provider is held back, and memory does not grow with what it could send',
  async () => {
    for (let warm = 0; warm < 20; warm += 1) await completeOther()
    const before = await metric('tollgate_resident_memory_bytes')
    for (let index = 0; index < STALLED; index += 1) {
      sockets.push(stall(Number(new URL(server.url).port), server.firstKey, 'svc/endless'))
    }

    // Others' answers, one after the other, while the stalled streams fill what they can fill. When ten whole answers
    // went by and nothing more was taken from the provider, it is held back.
    let quiet = 0
    let answers = 0
    for (let taken = -1; quiet < 10; answers += 1) {
      expect(await completeOther()).toBe(200)
      const now = provider.open === STALLED ? provider.writtenBytes : -1
      quiet = now === taken && now >= 0 ? quiet + 1 : 0
      taken = now
    }
    expect(await metric('tollgate_open_requests')).toBe(STALLED)

    const grown = (await metric('tollgate_resident_memory_bytes')) - before
    console.log(
      `${STALLED} stalled clients: ${Math.round(provider.writtenBytes / 1e6)} MB taken from the provider (most of it in ` +
        `the kernel's buffers), ${Math.round(grown / 1e6)} MB more resident, ${answers} answers to others meanwhile`,
    )
    // The text so far of each call, some megabytes as long as kernels buffer that much, and the collector's slack.
    expect(grown).toBeLessThan(192e6)

    for (const socket of sockets) socket.destroy()
    await provider.abandoned()
    while ((await metric('tollgate_open_requests')) + (await metric('tollgate_unposted_charges')) > 0);
    const database = await openDirectory(server.dataDir)
    const cancelled = await database.query(
      `select 1 from named_charges where outcome = 'cancelled' and completion_tokens > 0`,
    )
    await database.close()
    expect(cancelled).toHaveLength(STALLED)
  },
  LIMIT_MS,
)

test(
  'a client that takes nothing for a minute is gone: its provider is cancelled, its tokens charged, its connection closed',
  async () => {
    const clock = new TurnedClock(Date.now())
    const port = await openPort(provider.url, clock)
    const key = await port.gateway.customer({ cents: 1_000_000_000 })
    const socket = stall(port.port, key.key, 'svc/stepped')
    const closed = new Promise((resolve) => socket.once('close', resolve))
    // Many trips to the database during which nothing was taken: the call does not wait for money, but for its client.
    for (let taken = -1, quiet = 0; quiet < 100; ) {
      await port.gateway.database.query('select 1')
      const now = provider.open === 1 ? provider.writtenBytes : -1
      quiet = now === taken && now >= 0 ? quiet + 1 : 0
      taken = now
    }
    // In steps, with trips to the database between: it must answer the heartbeats of the process meanwhile.
    for (let seconds = 0; seconds < 61; seconds += 1) {
      await clock.turn(1_000)
      for (let trips = 0; trips < 2; trips += 1) await port.gateway.database.query('select 1')
    }
    await provider.abandoned()
    await port.idle()
    expect(await port.charges(key)).toMatchObject([{ outcome: 'cancelled' }])
    // The bytes that the kernel kept for it may still be read; then there is no end of an answer, but that of the
    // connection.
    const text = await readAll(socket, closed)
    expect(text).not.toContain('[DONE]')
    await port.close()
  },
  LIMIT_MS,
)

async function readAll(socket: Socket, closed: Promise<unknown>): Promise<string> {
  let text = ''
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1')
  })
  socket.resume()
  await closed
  return text
}
