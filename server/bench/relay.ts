/**
 * The bare relay, its own process: what a relay on this runtime costs at least. It passes one call on over a raw socket, parses
 * each chunk of the streamed answer as JSON, and writes a chunk of its own with the text. No keys, no money, no deadlines.
 * `bun relay.ts --port 0 --to PORT` prints nothing and serves until it is killed.
 */
import { parseArgs } from 'node:util'
import type { Socket } from 'bun'
import { createParser } from 'eventsource-parser'
import { MessageReader } from './framing.ts'

/** The sink that Bun gives to the `pull` of a direct stream. */
interface Sink {
  write(text: string): number | Promise<number>
  flush(): number | Promise<number>
  end(): void
}

const { values } = parseArgs({ options: { port: { type: 'string' }, to: { type: 'string' } } })
const HEADERS = { 'Content-Type': 'text/event-stream' }
const idle: Socket<Upstream>[] = []

interface Upstream {
  take: (bytes: Buffer) => void
}

Bun.serve({
  hostname: '127.0.0.1',
  port: Number(values.port),
  idleTimeout: 60,
  async fetch(request) {
    const body = await request.text()
    const text = `POST /v1/chat/completions HTTP/1.1\r\nhost: mock\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
    const socket = idle.pop() ?? (await connect())
    const stream = new ReadableStream({ type: 'direct', pull: (sink: Sink) => relay(socket, text, sink) } as never)
    return new Response(stream, { headers: HEADERS })
  },
})

function connect(): Promise<Socket<Upstream>> {
  const data: Upstream = { take: () => {} }
  const to = { hostname: '127.0.0.1', port: Number(values.to) }
  return Bun.connect<Upstream>({ ...to, data, socket: { data: (socket, bytes) => socket.data.take(bytes) } })
}

/** Resolves when the answer is whole. */
function relay(socket: Socket<Upstream>, text: string, sink: Sink): Promise<void> {
  return new Promise((resolve) => {
    const decoder = new TextDecoder()
    const parser = createParser({ onEvent: ({ data }) => void sink.write(chunkOf(data)) })
    const reader = new MessageReader({
      onHead: () => {},
      onBody: (piece) => {
        parser.feed(decoder.decode(piece, { stream: true }))
        void sink.flush()
      },
      onEnd: () => {
        idle.push(socket)
        sink.end()
        resolve()
      },
    })
    socket.data.take = (bytes) => reader.push(bytes)
    socket.write(text)
  })
}

function chunkOf(data: string): string {
  if (data === '[DONE]') return 'data: [DONE]\n\n'
  const { choices, usage = null } = JSON.parse(data)
  const { delta = {}, finish_reason: finishReason = null } = choices[0] ?? {}
  const own = usage === null ? [{ index: 0, delta: { content: delta.content }, finish_reason: finishReason }] : []
  const chunk = { id: 'chatcmpl-relay', object: 'chat.completion.chunk', created: 1_760_000_000, choices: own, usage }
  return `data: ${JSON.stringify(chunk)}\n\n`
}
