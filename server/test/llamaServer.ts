/**
 * A server for chat that treats its connections as llama.cpp's does, and worse. It names a time and a number of requests in
 * `Keep-Alive`, closes idle connections after the time and any connection after the number, and closes after a streamed answer
 * without having said so. Its answers say which call they are for.
 */

import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { Clock } from '../src/lib/time.ts'
import { END_OF_BODY, head, piece } from './rawServer.ts'

/** How a connection ends under a request, before any byte of an answer. */
export type Break = 'reset' | 'end'

export interface LlamaOptions {
  /** By which idle connections are closed. */
  readonly clock: Clock
  /** The seconds and requests that `Keep-Alive` names: 5 s and 100 requests unless given. */
  readonly timeoutSeconds?: number
  readonly requestsMost?: number
  /** True when `max` counts down from answer to answer, as Apache has it; else it is the same in each. */
  readonly countsDown?: boolean
  /** True when a connection is closed after a streamed answer, without a word of it in the head. */
  readonly closesAfterStream?: boolean
  /** Asked at each request on a connection that has carried others: whether the connection breaks under it. */
  readonly breaks?: () => Break | null
}

export interface LlamaServer {
  /** Ends in /v1. */
  readonly url: string
  /** Of each connection, the requests that it carried. */
  readonly carried: readonly number[]
  /** Requests that met the end of their connection. */
  readonly brokenCount: number
  stop(): void
}

interface Ask {
  readonly stream: boolean
  readonly max_tokens: number
  readonly messages: readonly { readonly content: string }[]
}

/** The text of the answer to a call: its words once more, so that an answer which reached another call is seen. */
export const llamaAnswer = (words: string) => `to ${words}`

/** Starts one on a free port of the loopback. */
export async function startLlamaServer(options: LlamaOptions): Promise<LlamaServer> {
  const carried: number[] = []
  const sockets = new Set<Socket>()
  const seen = { brokenCount: 0 }
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    serve(socket, options, carried, seen)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    carried,
    get brokenCount() {
      return seen.brokenCount
    },
    stop() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

function serve(socket: Socket, options: LlamaOptions, carried: number[], seen: { brokenCount: number }): void {
  const { clock, timeoutSeconds = 5, requestsMost = 100, countsDown = false, closesAfterStream = true } = options
  const place = carried.push(0) - 1
  const closeLater = () => clock.after(timeoutSeconds * 1_000, () => socket.end())
  let cancelClose = closeLater()
  let received = Buffer.alloc(0)
  const answer = (ask: Ask) => {
    const count = (carried[place] ?? 0) + 1
    carried[place] = count
    const broken = count > 1 ? (options.breaks?.() ?? null) : null
    if (broken !== null || count > requestsMost) {
      seen.brokenCount += 1
      if (broken === 'end') socket.end()
      else socket.resetAndDestroy()
      return
    }
    const max = countsDown ? requestsMost - count : requestsMost
    const keepAlive = `Keep-Alive: timeout=${timeoutSeconds}, max=${max}\r\n`
    socket.write(ask.stream ? streamed(ask, keepAlive) : whole(ask, keepAlive))
    if (ask.stream && closesAfterStream) socket.end()
    else cancelClose = closeLater()
  }
  socket.on('error', () => {})
  socket.on('close', () => cancelClose())
  socket.on('data', (bytes: Buffer) => {
    cancelClose()
    received = Buffer.concat([received, bytes])
    const headEnd = received.indexOf('\r\n\r\n')
    if (headEnd === -1) return
    const length = Number(/content-length: (\d+)/i.exec(received.toString('latin1', 0, headEnd))?.[1] ?? 0)
    const body = received.subarray(headEnd + 4)
    if (body.length < length) return
    received = Buffer.alloc(0)
    answer(JSON.parse(body.toString()))
  })
}

const wordsOf = ({ messages }: Ask) => messages.at(-1)?.content ?? ''

function usageOf(ask: Ask) {
  const [prompt, completion] = [wordsOf(ask).length, ask.max_tokens]
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
}

function whole(ask: Ask, keepAlive: string): string {
  const message = { role: 'assistant', content: llamaAnswer(wordsOf(ask)) }
  const body = JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'length' }], usage: usageOf(ask) })
  const fields = `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${keepAlive}`
  return `HTTP/1.1 200 OK\r\n${fields}\r\n${body}`
}

function streamed(ask: Ask, keepAlive: string): Buffer {
  const event = (data: object) => piece(`data: ${JSON.stringify(data)}\n\n`)
  const delta = { content: llamaAnswer(wordsOf(ask)) }
  return Buffer.concat([
    Buffer.from(head('200 OK', 'text/event-stream', keepAlive)),
    event({ choices: [{ index: 0, delta, finish_reason: null }] }),
    event({ choices: [{ index: 0, delta: {}, finish_reason: 'length' }] }),
    event({ choices: [], usage: usageOf(ask) }),
    piece('data: [DONE]\n\n'),
    Buffer.from(END_OF_BODY),
  ])
}
