/** SIGTERM lets open calls end: whole answers reach their clients, also slow ones, before the process goes. */

import { afterEach, expect, test } from 'bun:test'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { startServer, type TestServer } from '../server.ts'
import { type SteppedCall, type SteppedUpstream, startSteppedUpstream } from './steppedUpstream.ts'

const LIMIT_MS = 60_000

let server: TestServer
let upstream: SteppedUpstream

afterEach(async () => {
  await server.remove()
  upstream.stop()
}, LIMIT_MS)

async function start(): Promise<void> {
  upstream = await startSteppedUpstream()
  server = await startServer({
    settings: `
upstreams:
  stepped: { dialect: openai, base_url: "${upstream.url}" }
models:
  - id: svc/stepped
    context_length: 100000000
    pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }
    targets: [{ upstream: stepped, model: stepped }]
`,
  })
}

/** A call over a socket that the test reads when it likes. */
function call(stream: boolean): Socket {
  const { hostname, port } = new URL(server.url)
  const body = JSON.stringify({ model: 'svc/stepped', stream, messages: [{ role: 'user', content: 'Hello' }] })
  const socket = connect(Number(port), hostname)
  socket.pause()
  socket.on('error', () => {})
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${server.firstKey}\r\n` +
      `Content-Length: ${body.length}\r\n\r\n${body}`,
  )
  return socket
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
      const asked = await upstream.next()
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
      const asked = await upstream.next()
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
  'a second signal ends what is open at once',
  async () => {
    await start()
    const socket = call(true)
    await upstream.next()
    const stopped = server.stop()
    await untilStopping()
    server.process.kill('SIGTERM')
    await readAll(socket)
    expect(await stopped).toBe(0)
  },
  LIMIT_MS,
)
