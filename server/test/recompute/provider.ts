/**
 * The provider of the random load, a process of its own: `bun provider.ts SEED FILE CLIPS` prints its port, answers each call
 * as its plan says, and writes one line of JSON an attempt: what it has handed to the connection, and which usage was on
 * the wire. POST /finish writes what is still open and answers when all is in the file; between POST /hold and /release no
 * video is done.
 */

import type { Socket } from 'bun'
import { MessageReader } from '../../bench/framing.ts'
import { type CallPlan, planCall } from './plan.ts'
import { planWhole } from './planWhole.ts'
import { emptySent, partsOf, type Sent } from './providerChat.ts'
import { VideoJobs, type VideoReply } from './providerVideo.ts'
import { type WholeText, wholeText } from './providerWhole.ts'
import { numberOf } from './words.ts'

/** The same of a call for embeddings or images. */
interface SentWhole extends Omit<WholeText, 'json'> {
  readonly call: number
  readonly target: string
  end: Sent['end']
}

const [seedText = '', path = '', clips = ''] = process.argv.slice(2)
const seed = Number(seedText)
const writer = Bun.file(path).writer({ highWaterMark: 1 << 20 })
const open = new Set<Sent | SentWhole>()
const videos = new VideoJobs(seed, clips, (sent) => writer.write(`${JSON.stringify(sent)}\n`))

/** A request that was not read to its end: nobody may be charged for it. */
interface Unread {
  /** Null: what came does not say. */
  readonly call: number | null
  readonly target: null
  readonly end: 'unread'
}

function end(sent: Sent | SentWhole, how: Sent['end']): void {
  if (!open.delete(sent)) return
  sent.end = how
  writer.write(`${JSON.stringify(sent)}\n`)
}

const JSON_HEAD = 'Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}'
const REFUSALS = {
  refused: `HTTP/1.1 503 Service Unavailable\r\n${JSON_HEAD}`,
  limited: `HTTP/1.1 429 Too Many Requests\r\n${JSON_HEAD}`,
  page: 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<html>no</html>',
}
/** Method, and what follows. */
const VIDEOS = /^(GET|POST|DELETE) \/v1\/videos(.*)$/
const STREAM_HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'
const END_OF_BODY = '0\r\n\r\n'
const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))
const framed = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`

/** One connection of the gateway; its calls come one after the other. */
class Connection {
  readonly #socket: Socket<Connection | undefined>
  readonly reader: MessageReader
  #path = ''
  #body = ''
  #sent: Sent | SentWhole | null = null
  #isClosed = false
  #isReading = false
  /** The bytes that the kernel has not taken yet: at most one answer. */
  #unsent = Buffer.alloc(0)

  constructor(socket: Socket<Connection | undefined>) {
    this.#socket = socket
    this.reader = new MessageReader({
      onHead: (head) => {
        this.#path = head.slice(0, head.indexOf(' HTTP/'))
        this.#body = ''
        this.#isReading = true
      },
      onBody: (piece) => {
        this.#body += piece.toString('latin1')
      },
      onEnd: () => {
        this.#isReading = false
        void this.#take()
      },
    })
  }

  async #take(): Promise<void> {
    if (this.#path.endsWith('/finish')) {
      for (const sent of open) end(sent, 'cancelled')
      await writer.flush()
      this.#write(`HTTP/1.1 200 OK\r\n${JSON_HEAD}`)
      return
    }
    if (this.#path.endsWith('/hold') || this.#path.endsWith('/release')) {
      videos.isHeld = this.#path.endsWith('/hold')
      this.#write(`HTTP/1.1 200 OK\r\n${JSON_HEAD}`)
      return
    }
    const [, method, rest] = VIDEOS.exec(this.#path) ?? []
    if (method !== undefined && rest !== undefined) {
      this.#reply(await videos.answer(method, rest, this.#body))
      return
    }
    const body = JSON.parse(this.#body)
    if (this.#path.endsWith('/embeddings')) {
      await this.#answerWhole(numberOf(body.input[0]), 'embedding', body.model)
      return
    }
    if (this.#path.endsWith('/images/generations')) {
      await this.#answerWhole(numberOf(body.prompt), 'image', body.model)
      return
    }
    const number = numberOf(body.messages[0]?.content ?? '')
    const sent = emptySent(number, body.model)
    this.#sent = sent
    open.add(sent)
    await this.#answer(planCall(seed, number), sent)
  }

  async #answerWhole(number: number, kind: 'embedding' | 'image', target: string): Promise<void> {
    const plan = planWhole(seed, number, kind)
    const failure = target.endsWith('-spare') && !plan.spareFails ? null : plan.failure
    const { json, ...told } = wholeText(plan, failure === 'wrong')
    const sent: SentWhole = { call: number, target, ...told, end: 'open' }
    this.#sent = sent
    open.add(sent)
    if (plan.afterMs > 0) await pause(plan.afterMs)
    if (this.#isClosed) return
    if (failure === 'refused' || failure === 'limited' || failure === 'page') {
      end(sent, failure === 'page' ? 'broken' : 'refused')
      this.#write(REFUSALS[failure])
      return
    }
    end(sent, failure === null ? 'whole' : 'broken')
    const text = failure === 'short' || failure === 'reset' ? json.slice(0, json.length / 2) : json
    const length = failure === 'reset' ? json.length : text.length
    this.#write(`HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${text}`)
    if (failure === 'reset') this.#socket.end()
  }

  async #answer(plan: CallPlan, sent: Sent): Promise<void> {
    const fails = plan.failure !== null && (!sent.target.endsWith('-spare') || plan.spareFails)
    if (plan.beginsAfterMs > 0) await pause(plan.beginsAfterMs)
    if (this.#isClosed) return
    if (fails && (plan.failure === 'refused' || plan.failure === 'limited' || plan.failure === 'page')) {
      end(sent, 'refused')
      this.#write(REFUSALS[plan.failure])
      return
    }
    let ready = STREAM_HEAD
    for (const part of partsOf(plan, sent, fails, (how) => end(sent, how))) {
      if (typeof part === 'string') ready += framed(part)
      if (typeof part === 'string' && (!plan.isPaced || sent.end !== 'open')) continue
      this.#write(ready)
      ready = ''
      // Somebody who is to leave in the middle needs a middle to leave in.
      const pauseMs = typeof part === 'number' ? part : plan.hangUp === null ? 0 : 1
      await (pauseMs === 0 ? new Promise((resolve) => setImmediate(resolve)) : pause(pauseMs))
      if (this.#isClosed) return
    }
    const isReset = fails && plan.failure === 'reset'
    this.#write(isReset ? ready : ready + END_OF_BODY)
    if (isReset) this.#socket.end()
  }

  #reply(reply: VideoReply): void {
    if (reply !== null) {
      const { status, type, body, isCut } = reply
      this.#write(`HTTP/1.1 ${status} Said\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`)
      this.#write(isCut ? body.subarray(0, body.length / 2) : body)
    }
    if (reply === null || reply.isCut) this.#socket.end()
  }

  #write(text: string | Buffer): void {
    const more = Buffer.from(text)
    const bytes = this.#unsent.length === 0 ? more : Buffer.concat([this.#unsent, more])
    const taken = Math.max(0, this.#socket.write(bytes))
    this.#unsent = bytes.subarray(taken)
  }

  drain(): void {
    if (this.#unsent.length > 0) this.#write('')
  }

  close(): void {
    this.#isClosed = true
    if (this.#isReading) {
      const call = numberOf(/"(call [a-z ]+)"/.exec(this.#body)?.[1] ?? '')
      const unread: Unread = { call: Number.isNaN(call) ? null : call, target: null, end: 'unread' }
      writer.write(`${JSON.stringify(unread)}\n`)
    }
    if (this.#sent !== null) end(this.#sent, 'cancelled')
  }
}

const listener = Bun.listen<Connection | undefined>({
  hostname: '127.0.0.1',
  port: 0,
  socket: {
    open(socket) {
      socket.setNoDelay(true)
      socket.data = new Connection(socket)
    },
    data: (socket, bytes) => socket.data?.reader.push(bytes),
    drain: (socket) => socket.data?.drain(),
    close: (socket) => socket.data?.close(),
    error: (socket) => socket.data?.close(),
  },
})
console.log(listener.port)
