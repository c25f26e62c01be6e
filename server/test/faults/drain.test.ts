/** SIGTERM lets open calls end: whole answers reach their clients, also slow ones, before the process goes. */

import { afterEach, expect, test } from 'bun:test'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { openDirectory } from '../dataDirectory.ts'
import { startServer, type TestServer } from '../server.ts'
import { postUnread } from '../unreadRequest.ts'
import { type SteppedCall, type SteppedProvider, startSteppedProvider } from './steppedProvider.ts'

const LIMIT_MS = 60_000
/** More than can be charged in the moments that an end takes. */
const STREAMS = 40

let server: TestServer
let provider: SteppedProvider

afterEach(async () => {
  await server.remove()
  provider.stop()
}, LIMIT_MS)

async function start(): Promise<void> {
  provider = await startSteppedProvider()
  server = await startServer({ settings: settings() })
}

function settings(): string {
  return `
providers:
  stepped: { dialect: openai, base_url: "${provider.url}" }
models:
  - id: svc/stepped
    context_length: 100000000
    pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }
    targets: [{ provider: stepped, model: stepped }]
  - id: svc/vectors
    modality: embedding
    context_length: 1000
    pricing: { input_per_1m_tokens_cents: 1000000 }
    targets: [{ provider: stepped, model: stepped }]
`
}

/** A call over a socket that the test reads when it likes. */
function call(stream: boolean): Socket {
  return send('/chat/completions', { model: 'svc/stepped', stream, messages: [{ role: 'user', content: 'Hello' }] })
}

function send(path: string, what: object): Socket {
  const called = { port: Number(new URL(server.url).port), key: server.firstKey }
  return postUnread(called, path, what)
}

async function readAll(socket: Socket): Promise<string> {
  let text = ''
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1')
  })
  const closed = once(socket, 'close')
  socket.resume()
  await closed
  return text
}

/** Resolves when a text has come over a socket. */
async function heard(socket: Socket, text: string): Promise<void> {
  let said = ''
  await new Promise<void>((resolve) => {
    socket.on('data', (bytes) => {
      said += bytes.toString('latin1')
      if (said.includes(text)) resolve()
    })
    socket.resume()
  })
}

/** Closes the connection; resolves when the server has closed it too, and so knows. */
async function hangUp(socket: Socket): Promise<void> {
  const closed = once(socket, 'close')
  socket.end()
  socket.resume()
  await closed
}

/** Returns the costs of the charges, from the database of the server once it is started again. */
async function charged(): Promise<bigint[]> {
  server = await startServer({ settings: settings(), dataDir: server.dataDir })
  const database = await openDirectory(server.dataDir)
  const rows = await database.query<{ cost: bigint }>('select cost_microcents as cost from charges')
  await database.close()
  return rows.map(({ cost }) => cost)
}

/** The server has heard the signal when it takes no more calls. */
async function untilStopping(): Promise<void> {
  while (!server.errors().includes('open calls are allowed to end'))
    await new Promise((resolve) => setImmediate(resolve))
}

/** A long answer: more than the kernel's buffers take from a client that does not read. */
function answerAtLength(asked: SteppedCall): void {
  for (let index = 0; index < 300; index += 1) asked.says(' word'.repeat(10_000))
  asked.ends({ prompt: 1, completion: 3_000_000 })
}

for (const stream of [true, false]) {
  const kind = stream ? 'stream' : 'JSON answer'
  test(
    `the last open ${kind} comes whole, and the process ends well`,
    async () => {
      await start()
      const socket = call(stream)
      const asked = await provider.next()
      const stopped = server.stop()
      await untilStopping()
      asked.says('one')
      asked.ends({ prompt: 1, completion: 1 })
      const text = await readAll(socket)
      expect(text).toContain(stream ? 'data: [DONE]' : '"finish_reason":"stop"')
      expect(await stopped).toBe(0)
    },
    LIMIT_MS,
  )

  test(
    `a long ${kind} comes whole to a client that begins to read only after the signal`,
    async () => {
      await start()
      const socket = call(stream)
      const asked = await provider.next()
      answerAtLength(asked)
      const stopped = server.stop()
      await untilStopping()
      const text = await readAll(socket)
      expect(text.length).toBeGreaterThan(15_000_000)
      expect(text.slice(-300)).toContain(stream ? 'data: [DONE]' : '"completion_tokens":3000000')
      expect(await stopped).toBe(0)
    },
    LIMIT_MS,
  )
}

test(
  'embeddings whose client has hung up are waited for, and charged',
  async () => {
    await start()
    const socket = send('/embeddings', { model: 'svc/vectors', input: 'Hello' })
    const asked = await provider.next()
    await hangUp(socket)
    const stopped = server.stop()
    await untilStopping()
    const text = JSON.stringify({ data: [{ index: 0, embedding: [1] }], usage: { prompt_tokens: 3 } })
    asked.socket.write(
      `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
    )
    expect(await stopped).toBe(0)
    expect(server.errors()).not.toContain('calls that were still open are ended')
    expect(await charged()).toEqual([3_000_000n])
  },
  LIMIT_MS,
)

test(
  'a second signal ends what is open at once',
  async () => {
    await start()
    const socket = call(true)
    await provider.next()
    const stopped = server.stop()
    await untilStopping()
    server.process.kill('SIGTERM')
    await readAll(socket)
    expect(await stopped).toBe(0)
  },
  LIMIT_MS,
)

test(
  'what had reached the clients of streams that a second signal ends is charged',
  async () => {
    await start()
    const sockets = Array.from({ length: STREAMS }, () => call(true))
    const all = Promise.all(sockets.map((socket) => heard(socket, ' over')))
    for (const _ of sockets) (await provider.next()).says(`${' word'.repeat(50)} over`)
    await all
    const stopped = server.stop()
    await untilStopping()
    server.process.kill('SIGTERM')
    expect(await stopped).toBe(0)
    // At 1 micro-cent a token: more than the prompt alone.
    const costs = await charged()
    expect(costs.map((cost) => cost > 50n)).toEqual(sockets.map(() => true))
  },
  LIMIT_MS,
)
