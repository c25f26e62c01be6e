/** A port whose requests are handed on to other servers. */

import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Clock } from '../../lib/time.ts'
import { type CallerOf, createCallers } from './callers.ts'
import {
  type Forwarding,
  type ForwardOptions,
  forwardRequest,
  forwardUpgrade,
  type ProxyTarget,
  refusalText,
} from './forward.ts'
import { type HeaderList, hasOtherCoding, isTwofold } from './headers.ts'
import { staysBeneath } from './pathBeneath.ts'

/** A request before anything is decided. */
export interface ProxyRequest {
  readonly method: string
  /** As the caller wrote it. */
  readonly host: string
  readonly address: string
  readonly isUpgrade: boolean
  /** Several of one name are joined; `name` in lower case. */
  header(name: string): string | null
}

export type ProxyDecision =
  | { readonly kind: 'refuse'; readonly status: number; readonly headers: HeaderList; readonly text: string }
  | (Pick<ForwardOptions, 'target' | 'isSecure' | 'isOwnCookie'> & {
      readonly kind: 'forward'
      /** It is on its way. */
      readonly onOpened: (forwarding: Forwarding) => void
      /** It is over, or was never on its way. */
      readonly onClosed: () => void
    })

/** Says where a request goes. Never throws. */
export type Decide = (request: ProxyRequest) => Promise<ProxyDecision>

export interface ProxyServerOptions {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly clock: Clock
  readonly decide: Decide
  readonly callerOf: CallerOf
  /** The id of a request for our own answers, from the caller's `X-Request-Id`. */
  readonly requestIdOf: (header: string | null) => string
}

export interface ProxyServer {
  readonly port: number
  /** Open connections of callers. */
  readonly connections: number
  /** Takes no more, and breaks off what is open. */
  close(): void
}

const TWOFOLD = badRequest('Send the headers Host and Content-Length once each.\n')
const OTHER_CODING = badRequest('Send the header Transfer-Encoding once, with the value "chunked", or not at all.\n')
const NO_PATH = badRequest('Ask for a path.\n')
const OTHER_PATH = badRequest('Ask for a path without the segments "." and "..".\n')
const WEBSOCKET_BODY = badRequest('A request for a WebSocket has no body.\n')

/** Opens the port. Rejects where it is taken. */
export async function openProxyServer({
  host,
  port,
  clock,
  decide,
  callerOf,
  requestIdOf,
}: ProxyServerOptions): Promise<ProxyServer> {
  const callers = createCallers(clock, callerOf)
  const decideOn = async (asked: IncomingMessage, isUpgrade: boolean): Promise<ProxyDecision> => {
    if (isTwofold(asked.rawHeaders)) return TWOFOLD
    if (hasOtherCoding(asked.rawHeaders)) return OTHER_CODING
    // A whole URL in place of a path is how a proxy is asked for other hosts.
    if (!asked.url?.startsWith('/')) return NO_PATH
    if (isUpgrade && hasBody(asked)) return WEBSOCKET_BODY
    const decision = await decide(requestOf(asked, asked.socket, isUpgrade))
    if (decision.kind === 'refuse' || isWithin(decision.target, asked.url)) return decision
    decision.onClosed()
    return OTHER_PATH
  }
  const ownHeadersOf = ({ headers: { 'x-request-id': id } }: IncomingMessage): HeaderList => ({
    'X-Request-Id': requestIdOf(id === undefined ? null : String(id)),
  })
  const server = createServer((asked, answer) => {
    const { socket } = asked
    callers.asked(socket)
    answer.on('close', () => callers.answered(socket))
    void decideOn(asked, false).then((decision) => {
      if (decision.kind === 'refuse') {
        // The rest of the body is not read.
        const { status, text } = decision
        const headers = { ...ownHeadersOf(asked), ...decision.headers, 'Content-Type': 'text/plain' }
        answer.writeHead(status, { ...headers, Connection: 'close' }).end(text)
      } else if (answer.destroyed) decision.onClosed()
      else begin(decision, socket, () => forwardRequest(asked, answer, forwarding(asked, socket, decision)))
    })
  })
  server.on('upgrade', (asked: IncomingMessage, socket: Duplex, head: Buffer) => {
    callers.asked(socket)
    void decideOn(asked, true).then((decision) => {
      if (decision.kind === 'refuse') refuseUpgrade(socket, decision, ownHeadersOf(asked))
      else if (socket.destroyed) decision.onClosed()
      else begin(decision, socket, () => forwardUpgrade(asked, socket, head, forwarding(asked, socket, decision)))
    })
  })
  server.on('connection', (socket: Socket) => callers.add(socket, socket.remoteAddress ?? ''))
  const forwarding = (
    asked: IncomingMessage,
    socket: Duplex,
    { target, isSecure, isOwnCookie, onClosed }: Extract<ProxyDecision, { kind: 'forward' }>,
  ): ForwardOptions => ({
    ...{ target, isSecure, isOwnCookie, onClosed, ownHeaders: ownHeadersOf(asked) },
    host: asked.headers.host ?? '',
    onBytes: () => callers.onBytes(socket),
    onStalled: (isStalled) => callers.stalled(socket, isStalled),
  })
  await listenAt(server, host, port)
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return callers.count
    },
    close() {
      server.close()
      callers.close()
    },
  }
}

function badRequest(text: string): ProxyDecision {
  return { kind: 'refuse', status: 400, headers: {}, text }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0
}

/** Returns whether a request for a path can't reach what else there is at the target's host. */
function isWithin(target: ProxyTarget, path: string): boolean {
  return 'socketPath' in target || target.pathPrefix === '' || staysBeneath(path)
}

/** Begins to hand a request on. One that can't be written as it came, such as with a byte in its path that none may have, is cut off. */
function begin(
  { onOpened, onClosed }: Extract<ProxyDecision, { kind: 'forward' }>,
  socket: Duplex,
  forward: () => Forwarding,
): void {
  try {
    onOpened(forward())
  } catch {
    socket.destroy()
    onClosed()
  }
}

function refuseUpgrade(
  socket: Duplex,
  { status, headers, text }: Extract<ProxyDecision, { kind: 'refuse' }>,
  ownHeaders: HeaderList,
): void {
  socket.on('error', () => {})
  // Each character of a header is the byte that the caller has sent.
  socket.end(refusalText(status, { ...ownHeaders, ...headers }, text), 'latin1', () => socket.destroy())
}

function requestOf(asked: IncomingMessage, { remoteAddress }: Socket, isUpgrade: boolean): ProxyRequest {
  return {
    method: asked.method ?? 'GET',
    host: asked.headers.host ?? '',
    address: remoteAddress ?? '',
    isUpgrade,
    header(name) {
      const value = asked.headers[name]
      return value === undefined ? null : [value].flat().join(', ')
    },
  }
}

function listenAt(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => resolve())
  })
}
