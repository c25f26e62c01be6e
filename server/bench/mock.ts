/**
 * The mock provider, its own process: an OpenAI-style chat endpoint on a raw loopback socket, so cheap that it isn't
 * what is measured. `bun mock.ts --port 0` prints `{"port":…}` on stdout and serves until it is killed.
 *
 * The model's name is the script: `mock-100x50` answers with 100 chunks, one each 50 ms, the first at once. With a
 * pace of 0 the whole answer is one write of bytes that were encoded beforehand. With a pace, each chunk's text is
 * the instant at which it was due, `@<microseconds of instant.ts>;`, so that the driver can tell how late it came.
 */
import type { Socket } from 'bun'
import { MessageReader } from './framing.ts'
import { sharedMicroseconds } from './instant.ts'
import { mockTokens } from './mockModel.ts'

const PROMPT_TOKENS = 12
/** A bound on what a model's name can ask for. */
const MAX_CHUNKS = 10_000

interface Script {
  readonly chunks: number
  readonly paceMs: number
  readonly json: Buffer
  /** The whole stream, for a pace of 0: without and with the usage chunk. */
  readonly stream: Buffer
  readonly streamWithUsage: Buffer
  readonly model: string
}

const NOT_FOUND = Buffer.from('HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}')
const STREAM_HEAD =
  'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n'
const STREAM_END = '0\r\n\r\n'

function framed(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
}

function event(model: string, delta: object, finishReason: string | null): string {
  const choices = [{ index: 0, delta, logprobs: null, finish_reason: finishReason }]
  const chunk = { id: 'chatcmpl-bench', object: 'chat.completion.chunk', created: 1_760_000_000, model, choices }
  return `data: ${JSON.stringify(chunk)}\n\n`
}

function usageOf(model: string): object {
  const tokens = mockTokens(model)
  return { prompt_tokens: PROMPT_TOKENS, completion_tokens: tokens, total_tokens: PROMPT_TOKENS + tokens }
}

function tailOf(model: string, withUsage: boolean): string {
  const usage = { id: 'chatcmpl-bench', object: 'chat.completion.chunk', created: 1_760_000_000, model, choices: [] }
  const last = withUsage ? `data: ${JSON.stringify({ ...usage, usage: usageOf(model) })}\n\n` : ''
  return `${event(model, {}, 'stop')}${last}data: [DONE]\n\n`
}

function jsonOf(model: string, chunks: number): Buffer {
  const message = { role: 'assistant', content: 'word '.repeat(chunks) }
  const choices = [{ index: 0, message, logprobs: null, finish_reason: 'stop' }]
  const answer = { id: 'chatcmpl-bench', object: 'chat.completion', created: 1_760_000_000, model, choices }
  const body = JSON.stringify({ ...answer, usage: usageOf(model) })
  return Buffer.from(
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
}

function streamOf(model: string, chunks: number, withUsage: boolean): Buffer {
  let text = event(model, { role: 'assistant', content: '' }, null)
  for (let index = 0; index < chunks; index++) text += event(model, { content: 'word ' }, null)
  return Buffer.from(STREAM_HEAD + framed(text + tailOf(model, withUsage)) + STREAM_END)
}

/** Parses a model name into what is answered; undefined when it isn't one of ours. */
function scriptOf(model: string): Script | undefined {
  const match = /^mock-(\d{1,5})x(\d{1,5})$/.exec(model)
  if (match === null) return undefined
  const chunks = Number(match[1])
  if (chunks < 1 || chunks > MAX_CHUNKS) return undefined
  const stream = streamOf(model, chunks, false)
  const streamWithUsage = streamOf(model, chunks, true)
  return { chunks, paceMs: Number(match[2]), json: jsonOf(model, chunks), stream, streamWithUsage, model }
}

class MockConnection {
  readonly #socket: Socket<MockConnection | undefined>
  readonly #scripts: Map<string, Script>
  readonly reader: MessageReader
  #path = ''
  #body = ''
  /** The bytes that the kernel has not taken yet. Bounded by one answer: the next request waits for its client. */
  #unsent: Buffer | null = null
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(socket: Socket<MockConnection | undefined>, scripts: Map<string, Script>) {
    this.#socket = socket
    this.#scripts = scripts
    this.reader = new MessageReader({
      onHead: (head) => {
        this.#path = head.slice(0, head.indexOf(' HTTP/'))
        this.#body = ''
      },
      onBody: (piece) => {
        this.#body += piece.toString('latin1', 0, piece.length)
      },
      onEnd: () => this.#answer(),
    })
  }

  #answer(): void {
    const model = /"model"\s*:\s*"([^"]{1,64})"/.exec(this.#body)?.[1] ?? ''
    let script = this.#scripts.get(model)
    if (script === undefined && this.#scripts.size < 100) {
      script = scriptOf(model)
      if (script !== undefined) this.#scripts.set(model, script)
    }
    if (script === undefined || !this.#path.includes('/chat/completions')) this.#write(NOT_FOUND)
    else if (!/"stream"\s*:\s*true/.test(this.#body)) this.#write(script.json)
    else this.#stream(script, /"include_usage"\s*:\s*true/.test(this.#body))
  }

  #stream(script: Script, withUsage: boolean): void {
    if (script.paceMs === 0) {
      this.#write(withUsage ? script.streamWithUsage : script.stream)
      return
    }
    this.#write(Buffer.from(STREAM_HEAD + framed(event(script.model, { role: 'assistant', content: '' }, null))))
    this.#emit(script, withUsage, sharedMicroseconds(), 0)
  }

  /** Sends chunk `index`, due at a fixed pace from the first one: a late timer never delays the schedule. */
  #emit(script: Script, withUsage: boolean, startedAt: number, index: number): void {
    const dueAt = startedAt + index * script.paceMs * 1000
    const chunk = framed(event(script.model, { content: `@${Math.round(dueAt)};` }, null))
    if (index === script.chunks - 1) {
      this.#write(Buffer.from(chunk + framed(tailOf(script.model, withUsage)) + STREAM_END))
      return
    }
    this.#write(Buffer.from(chunk))
    const waitMs = (dueAt - sharedMicroseconds()) / 1000 + script.paceMs
    this.#timer = setTimeout(() => this.#emit(script, withUsage, startedAt, index + 1), Math.max(0, Math.ceil(waitMs)))
  }

  #write(bytes: Buffer): void {
    const all = this.#unsent === null ? bytes : Buffer.concat([this.#unsent, bytes])
    const sent = Math.max(0, this.#socket.write(all))
    this.#unsent = sent < all.length ? all.subarray(sent) : null
  }

  drain(): void {
    if (this.#unsent !== null) this.#write(Buffer.alloc(0))
  }

  close(): void {
    clearTimeout(this.#timer)
  }
}

function serve(port: number): void {
  const scripts = new Map<string, Script>()
  const listener = Bun.listen<MockConnection | undefined>({
    hostname: '127.0.0.1',
    port,
    socket: {
      open(socket) {
        socket.setNoDelay(true)
        socket.data = new MockConnection(socket, scripts)
      },
      data: (socket, bytes) => socket.data?.reader.push(bytes),
      drain: (socket) => socket.data?.drain(),
      close: (socket) => socket.data?.close(),
      error: (socket) => socket.data?.close(),
    },
  })
  console.log(JSON.stringify({ port: listener.port }))
}

const portArgument = process.argv.indexOf('--port')
serve(portArgument < 0 ? 0 : Number(process.argv[portArgument + 1]))
