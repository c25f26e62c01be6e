/** One request that is handed on to another server, and its answer. */

import {
  type ClientRequest,
  type IncomingMessage,
  type RequestOptions,
  request,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import { request as requestByTls } from 'node:https'
import type { Duplex, Readable, Writable } from 'node:stream'
import { type HandedOn, type HeaderList, handedOnHeaders, returnedHeaders } from './headers.ts'

/** Where a request goes. */
export type ProxyTarget =
  | { readonly socketPath: string }
  | { readonly host: string; readonly port: number; readonly isTls: boolean; readonly pathPrefix: string }

/** A request on its way. */
export interface Forwarding {
  /** Breaks it off on both sides. */
  end(): void
}

export interface ForwardOptions extends HandedOn {
  readonly target: ProxyTarget
  /** The headers of an answer of our own, where the other server gives none. */
  readonly ownHeaders: HeaderList
  /** Bytes came from either side. */
  readonly onBytes: () => void
  /** Called with true when the other server takes no more of what the caller sends, and then with false when it does again, or all is over. */
  readonly onStalled: (isStalled: boolean) => void
  /** Called once, when nothing of it is left. */
  readonly onClosed: () => void
}

const BAD_GATEWAY = 502

/** Answers of a status below 200 that may come before the answer, such as early hints. Endless ones would keep us busy for nothing. */
const INFORMATIONAL_MOST = 16

/** Its own text: the other server's failure is nothing that a stranger must know. */
const NO_ANSWER = 'The app does not answer.\n'

/** Hands a request on, and its answer back. */
export function forwardRequest(asked: IncomingMessage, answer: ServerResponse, options: ForwardOptions): Forwarding {
  const sent = send(asked, options, {})
  const end = () => {
    sent.destroy()
    answer.destroy()
  }
  const fail = () => {
    sent.destroy()
    if (answer.headersSent) answer.destroy()
    else answer.writeHead(BAD_GATEWAY, { ...options.ownHeaders, 'Content-Type': 'text/plain' }).end(NO_ANSWER)
  }
  sent.on('response', (got) => {
    // It was broken off before.
    if (sent.destroyed) return
    got.on('aborted', end)
    got.on('error', end)
    try {
      const status = got.statusCode ?? BAD_GATEWAY
      answer.writeHead(status, returnedHeaders(got.rawHeaders, status))
      answer.flushHeaders()
    } catch {
      // A status or a header that is none.
      fail()
      return
    }
    got.on('data', options.onBytes)
    got.pipe(answer)
  })
  // Nobody asked for another protocol.
  sent.on('upgrade', (_got, inside: Duplex) => {
    inside.destroy()
    fail()
  })
  sent.on('error', fail)
  answer.on('error', end)
  const endStalls = tellStalls(asked, sent, options)
  answer.on('close', () => {
    sent.destroy()
    endStalls()
    options.onClosed()
  })
  asked.on('data', options.onBytes)
  asked.on('error', end)
  asked.pipe(sent)
  return { end }
}

/** Hands a request for a WebSocket on, and then the bytes of both sides. */
export function forwardUpgrade(
  asked: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  options: ForwardOptions,
): Forwarding {
  const sent = send(asked, options, { connection: 'Upgrade', upgrade: 'websocket' })
  const end = () => {
    sent.destroy()
    socket.destroy()
  }
  sent.on('upgrade', (got, inside: Duplex, first: Buffer) => {
    socket.write(
      headText(101, { ...returnedHeaders(got.rawHeaders, 101), connection: 'Upgrade', upgrade: 'websocket' }),
    )
    if (first.length > 0) socket.write(first)
    if (head.length > 0) inside.write(head)
    socket.on('data', options.onBytes)
    inside.on('data', options.onBytes)
    inside.on('error', end)
    inside.on('close', () => socket.destroy())
    const endStalls = tellStalls(socket, inside, options)
    socket.on('close', () => {
      inside.destroy()
      endStalls()
    })
    // A WebSocket of which one side has ended is over, once the other has what was said.
    inside.on('finish', () => inside.destroy())
    socket.pipe(inside)
    inside.pipe(socket)
  })
  sent.on('response', (got) => {
    if (sent.destroyed) return
    const status = got.statusCode ?? BAD_GATEWAY
    socket.write(headText(status, { ...returnedHeaders(got.rawHeaders, status), connection: 'close' }))
    got.on('error', end)
    got.pipe(socket)
  })
  sent.on('error', () => {
    if (!socket.destroyed) socket.end(refusalText(BAD_GATEWAY, options.ownHeaders, NO_ANSWER), 'latin1')
  })
  // Nothing follows what we say last, and a caller may never say its own end.
  socket.on('finish', () => socket.destroy())
  socket.on('error', end)
  socket.on('close', () => {
    sent.destroy()
    options.onClosed()
  })
  sent.end()
  return { end }
}

/** Tells when `to`, into which `from` is piped, takes no more, and when it does again. Returns what ends that. */
function tellStalls(from: Readable, to: Writable, { onStalled }: Pick<ForwardOptions, 'onStalled'>): () => void {
  let isStalled = false
  const tell = (is: boolean) => {
    if (is === isStalled) return
    isStalled = is
    onStalled(is)
  }
  from.on('pause', () => tell(to.writableNeedDrain))
  to.on('drain', () => tell(false))
  return () => tell(false)
}

function send(asked: IncomingMessage, { target, ...said }: ForwardOptions, more: HeaderList): ClientRequest {
  const headers = { ...handedOnHeaders(asked.rawHeaders, said), ...more }
  const options: RequestOptions = { method: asked.method ?? 'GET', headers, agent: false, setHost: false }
  const path = asked.url ?? '/'
  if ('socketPath' in target) return boundInformational(request({ ...options, socketPath: target.socketPath, path }))
  const { host, port, isTls, pathPrefix } = target
  const sendBy = isTls ? requestByTls : request
  return boundInformational(sendBy({ ...options, host, port, path: `${pathPrefix}${path}` }))
}

/** Breaks a request off, as one that fails, where more goes before its answer than {@link INFORMATIONAL_MOST}. */
function boundInformational(sent: ClientRequest): ClientRequest {
  let count = 0
  const note = () => {
    count += 1
    if (count > INFORMATIONAL_MOST) sent.destroy(new Error('too many informational answers'))
  }
  return sent.on('information', note).on('continue', note)
}

/** An answer as text, for a connection whose HTTP is ours to write. */
export function refusalText(status: number, headers: HeaderList, text: string): string {
  const framing = { connection: 'close', 'content-type': 'text/plain', 'content-length': String(text.length) }
  return `${headText(status, { ...headers, ...framing })}${text}`
}

function headText(status: number, headers: HeaderList): string {
  const lines = Object.entries(headers).flatMap(([name, value]) => [value].flat().map((each) => `${name}: ${each}`))
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? '-'}\r\n${lines.join('\r\n')}\r\n\r\n`
}
