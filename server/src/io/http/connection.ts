import type { Socket } from 'bun'
import { HttpFailure, type HttpRequest } from '../http.ts'
import { Exchange, type Line } from './exchange.ts'
import type { Origin } from './origin.ts'

/** What a connection tells whoever keeps it. */
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
    // All requests of a turn leave together: written one by one, each would wake the process at the other end anew.
    this.owner.soon(() => {
      if (this.exchange !== exchange) return
      exchange.sent()
      this.write(text)
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
    const keepAlive = this.exchange?.header('keep-alive') ?? null
    if (keepAlive !== null) this.keepAliveSeconds = secondsOf(keepAlive)
    // An answer that came before its request was sent whole leaves the rest of that in the way.
    if (reusable && this.unsent === null && !this.isClosed) {
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
  }

  /** The other side closed the socket, or it broke. */
  ended(error: Error | null): void {
    this.gone(error === null ? (this.inputEnded ? null : 'ECONNRESET') : (codeOf(error) ?? error.name))
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
    if (sent < 0 || isWhole(what, sent)) return
    this.unsent = (typeof what === 'string' ? Buffer.from(what) : what).subarray(sent)
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

/** Whether `sentBytes` is all of it. */
function isWhole(what: string | Buffer, sentBytes: number): boolean {
  return sentBytes >= (typeof what === 'string' ? Buffer.byteLength(what) : what.length)
}

function codeOf(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null
}

function secondsOf(keepAlive: string): number | null {
  const seconds = /\btimeout=(\d{1,6})\b/.exec(keepAlive)?.[1]
  return seconds === undefined ? null : Number(seconds)
}
