import type { Socket } from 'bun'
import { HttpFailure, type HttpRequest } from '../httpClient.ts'
import { Exchange, type Line } from './exchange.ts'
import type { Origin } from './origin.ts'

/** Of the header `Keep-Alive`. Names in any case; more digits than these are no figure to heed. */
const TIMEOUT = /\btimeout\s*=\s*(\d{1,6})\b/i
const MAX = /\bmax\s*=\s*(\d{1,6})\b/i

/** The owner of a connection, which hears what becomes of it. */
export interface ConnectionOwner {
  /** It is free for another call. */
  idle(connection: Connection): void
  /** It is gone; told once, whoever closed it. */
  closed(connection: Connection): void
  /** Nobody wants it any more, but the system goes on to try and reach the other side; told before `closed`. */
  givenUp(connection: Connection): void
  /** Calls back at the end of this turn of the event loop. */
  soon(callback: () => void): void
  /** Certificates to trust, PEM; null: the runtime's own list. */
  readonly authorities: readonly string[] | null
  /** Calls back once after the moment that the end of a body may take, unless cancelled by the result. */
  afterTail(callback: () => void): () => void
}

/** A connection to an origin, over TLS where that is its scheme. It carries one exchange at a time. */
export class Connection implements Line {
  readonly origin: Origin
  /** When it became idle, on the clock's monotonic scale; kept by its owner. */
  idleSinceMs = 0
  /** Seconds after which the server may close it while idle, where it has said so. */
  keepAliveSeconds: number | null = null
  /** Requests that it has carried, the one under way among them. */
  private requestCount = 0
  /** Requests after which the server may close it, where it has said so. */
  private requestsMost = Number.POSITIVE_INFINITY
  private readonly owner: ConnectionOwner
  private socket: Socket<Connection> | null = null
  private opening: { resolve(): void; reject(failure: HttpFailure): void } | null = null
  private exchange: Exchange | null = null
  private unsent: Buffer | null = null
  private cancelTail: (() => void) | null = null
  private inputEnded = false
  private isDialling = false
  private isClosed = false

  constructor(origin: Origin, owner: ConnectionOwner) {
    this.origin = origin
    this.owner = owner
  }

  /** Resolves when a request can be sent. Throws {@link HttpFailure}: not reached, or not the host that was meant. */
  open(): Promise<void> {
    const { hostname, address = hostname, port, isSecure } = this.origin
    const to = { hostname: address, port }
    const { authorities } = this.owner
    const ca = authorities === null ? {} : { ca: [...authorities] }
    const tls = isSecure ? { tls: { serverName: hostname, rejectUnauthorized: true, ...ca } } : {}
    return new Promise((resolve, reject) => {
      this.opening = { resolve, reject }
      this.isDialling = true
      const dial = async () => void (await Bun.connect<Connection>({ ...to, data: this, socket: HANDLERS, ...tls }))
      dial().then(
        () => this.dialled(),
        (error: unknown) => {
          this.dialled()
          this.gone(codeOf(error) ?? 'ECONNREFUSED')
        },
      )
    })
  }

  /** Sends a request, head and body; only on an open connection that carries none. */
  send(text: string, request: HttpRequest): Exchange {
    const exchange = new Exchange(this, request)
    this.exchange = exchange
    this.requestCount += 1
    // Requests of one turn of the event loop are written together; one by one, each would wake the peer.
    this.owner.soon(() => {
      if (this.exchange === exchange) this.write(text)
    })
    return exchange
  }

  close(): void {
    this.gone('ECONNABORTED')
  }

  setPaused(paused: boolean): void {
    if (paused) this.socket?.pause()
    else this.socket?.resume()
  }

  expectEnd(): void {
    this.cancelTail = this.owner.afterTail(() => this.exchange?.cancel())
  }

  over(reusable: boolean): void {
    this.cancelTail?.()
    this.cancelTail = null
    this.heedKeepAlive(this.exchange?.header('keep-alive') ?? null)
    const isUsedUp = this.requestCount >= this.requestsMost
    // An answer that came before its request was sent whole leaves the rest of that in the way.
    if (reusable && !isUsedUp && this.unsent === null && !this.isClosed) {
      this.exchange = null
      this.owner.idle(this)
    } else this.close()
  }

  /** The socket is there; over TLS nothing is known of the other side yet. */
  opened(socket: Socket<Connection>): void {
    this.socket = socket
    this.dialled()
    if (this.isClosed) return void socket.terminate()
    if (!this.origin.isSecure) this.ready()
    socket.setNoDelay(true)
  }

  /** The certificate has been held against the roots and the name. */
  shook(isTrusted: boolean, error: Error | null): void {
    if (isTrusted && error === null) this.ready()
    else this.gone(codeOf(error) ?? 'TLS')
  }

  received(bytes: Buffer): void {
    // A server to which nothing was said has nothing to say.
    if (this.exchange === null) this.close()
    else this.exchange.take(bytes)
  }

  drained(): void {
    const rest = this.unsent
    if (rest === null) return
    this.unsent = null
    this.write(rest)
  }

  endOfInput(): void {
    this.inputEnded = true
    // A server that has no more to say takes no other request.
    if (this.exchange === null && this.opening === null) this.close()
  }

  /** The other side closed the socket, or it broke. */
  ended(error: Error | null): void {
    this.gone(error === null ? (this.inputEnded ? null : 'ECONNRESET') : (codeOf(error) ?? error.name))
  }

  /**
   * Servers give `max` in two ways: cpp-httplib and Node as the requests that a connection carries in all, Apache as those that
   * are left. Taken as the former, a connection is never used too often, and by Apache's half as often as it could be.
   */
  private heedKeepAlive(header: string | null): void {
    if (header === null) return
    this.keepAliveSeconds = figureIn(header, TIMEOUT)
    this.requestsMost = figureIn(header, MAX) ?? this.requestsMost
  }

  private ready(): void {
    this.opening?.resolve()
    this.opening = null
  }

  /** The end, once; `code` is null when the other side closed it in order. */
  private gone(code: string | null): void {
    if (this.isClosed) return
    this.isClosed = true
    this.cancelTail?.()
    // In the middle of something the other side is to notice at once; else it is closed politely.
    if (this.exchange === null) this.socket?.end()
    else this.socket?.terminate()
    this.opening?.reject(new HttpFailure(code ?? 'ECONNRESET', false))
    this.opening = null
    this.exchange?.closed(code)
    this.exchange = null
    if (this.isDialling) this.owner.givenUp(this)
    else this.owner.closed(this)
  }

  /** The system has reached the other side, or tries no more. */
  private dialled(): void {
    if (!this.isDialling) return
    this.isDialling = false
    if (this.isClosed) this.owner.closed(this)
  }

  private write(what: string | Buffer): void {
    const sent = this.socket?.write(what) ?? -1
    // A socket that is closing has told so, or is about to.
    if (sent < 0) return
    if (sent > 0) this.exchange?.sent()
    if (isWhole(what, sent)) this.exchange?.written()
    else this.unsent = (typeof what === 'string' ? Buffer.from(what) : what).subarray(sent)
  }
}

const HANDLERS = {
  open: (socket: Socket<Connection>) => socket.data.opened(socket),
  handshake: (socket: Socket<Connection>, ok: boolean, error: Error | null) => socket.data.shook(ok, error),
  data: (socket: Socket<Connection>, bytes: Buffer) => socket.data.received(bytes),
  drain: (socket: Socket<Connection>) => socket.data.drained(),
  end: (socket: Socket<Connection>) => socket.data.endOfInput(),
  close: (socket: Socket<Connection>, error?: Error) => socket.data.ended(error ?? null),
  error: (socket: Socket<Connection>, error: Error) => socket.data.ended(error),
  // `open` tells by its rejected promise; without this one that rejection would count as unhandled.
  connectError: () => {},
}

/** Returns whether `sentBytes` is all of it. */
function isWhole(what: string | Buffer, sentBytes: number): boolean {
  return sentBytes >= (typeof what === 'string' ? Buffer.byteLength(what) : what.length)
}

function codeOf(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null
}

function figureIn(header: string, pattern: RegExp): number | null {
  const figure = pattern.exec(header)?.[1]
  return figure === undefined ? null : Number(figure)
}
