/** The HTTP servers over `Bun.serve`. Handlers stay web-standard: Request in, Response out. */

import { createBoundedTurns } from './turns.ts'

/** The connection of a request. */
export interface Peer {
  readonly address: string
  /** Seconds without a byte taken or sent by the client after which its connection is cut; 0: never. */
  setIdleTimeout(seconds: number): void
}

export interface HttpServer {
  readonly port: number
  readonly host: string
  /** Takes no new connections; those that are open go on. Resolves when all have ended. */
  stop(): Promise<void>
  /** Ends everything at once. */
  kill(): Promise<void>
}

export interface ListenOptions {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  /** Other processes of ours listen on the same port, and the system spreads connections over them. */
  readonly isShared?: boolean
  /** The server's own limit on a body, announced or not; its refusal is bare, without envelope or request id. */
  readonly maxBodyBytes: number
  readonly handle: (request: Request, peer: Peer) => Response | Promise<Response>
  /** A handler that threw, which none should. */
  readonly onError: (error: unknown) => Response
}

/** Seconds without a byte after which a connection is cut while a request is read, and after the answer to an unknown caller. */
export const IDLE_TIMEOUT_SECONDS = 10

/**
 * So many requests of a port begin in one turn of the event loop, and those behind them in the next. Bun gives all requests that
 * connections have sent ahead in one turn, and a new connection waits until their handlers have come to an end or to a wait.
 */
const BEGUN_A_TURN_MOST = 64

/** Of a client that is gone: nobody gets this answer. */
const GONE_STATUS = 499

/** Opens a port. Throws when it is taken. */
export function listen(options: ListenOptions): HttpServer {
  const turns = createBoundedTurns(BEGUN_A_TURN_MOST)
  const server = Bun.serve({
    hostname: options.host,
    port: options.port,
    maxRequestBodySize: options.maxBodyBytes,
    idleTimeout: IDLE_TIMEOUT_SECONDS,
    development: false,
    // With `development: false` Bun shares ports by default: a second server on a taken port would get half its calls.
    reusePort: options.isShared ?? false,
    fetch(request, self) {
      const turn = turns.take()
      if (turn === null) return options.handle(request, new RequestPeer(self, request))
      return turn.then(() => {
        // Its client has gone while it waited: it is not begun.
        if (request.signal.aborted) return new Response(null, { status: GONE_STATUS })
        return options.handle(request, new RequestPeer(self, request))
      })
    },
    error: options.onError,
  })
  return {
    port: server.port ?? options.port,
    host: options.host,
    stop: () => server.stop(false),
    kill: () => server.stop(true),
  }
}

/** A class, since each request has one: what every one of them makes anew is looked at whenever garbage is collected. */
class RequestPeer implements Peer {
  private readonly server: Bun.Server<undefined>
  private readonly request: Request

  constructor(server: Bun.Server<undefined>, request: Request) {
    this.server = server
    this.request = request
  }

  get address(): string {
    return this.server.requestIP(this.request)?.address ?? ''
  }

  setIdleTimeout(seconds: number): void {
    this.server.timeout(this.request, seconds)
  }
}
