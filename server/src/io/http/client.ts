import type { Clock } from '../../kernel/time.ts'
import { type Http, type HttpAnswer, HttpFailure, type HttpRequest } from '../http.ts'
import { Connection } from './connection.ts'
import { type Destination, destinationOf, type Origin } from './origin.ts'

/** Servers close idle connections after 5 s (Node, uvicorn, llama.cpp) or later; a call must not meet that moment. */
const IDLE_MS = 4_000
/** A second of margin before the moment that a server itself has named. */
const KEEP_ALIVE_MARGIN_MS = 1_000
const MAX_IDLE_PER_ORIGIN = 1_024
/** Open connections in all, those that the system still tries to open among them; each holds a file descriptor and a port. */
const MAX_CONNECTIONS = 16_384
/**
 * Of one origin: connections that were given up before they were there. Where packets are swallowed the system tries each
 * of them for two minutes more, and nothing ends that sooner.
 */
const MAX_GIVEN_UP = 256
const TAIL_MS = 1_000
/** URLs whose parts are remembered; calls go to the few of the settings. */
const MAX_DESTINATIONS = 1_000
const UNSENDABLE = /[^\t\x20-\x7e]/

export interface HttpOptions {
  /** How long a connection that nobody uses is kept for the next call; 0: not at all. 4 s unless given. */
  readonly idleMs?: number
  /** Certificates to trust, PEM, in place of the runtime's own list. */
  readonly authorities?: readonly string[]
  /**
   * Connections to one origin that were given up and that the system still tries; with so many, a call that needs another
   * one fails at once, as not reached in time. 256 unless given.
   */
  readonly givenUpMost?: number
}

/** The HTTP/1.1 client, over sockets of the runtime: see docs/decisions/0018-own-http-client.md. */
export function createHttp(
  clock: Clock,
  { idleMs = IDLE_MS, authorities, givenUpMost = MAX_GIVEN_UP }: HttpOptions = {},
): Http {
  const idle = new Map<string, Connection[]>()
  const destinations = new Map<string, Destination>()
  const heads = new WeakMap<object, string>()
  const givenUp = new Set<Connection>()
  const givenUpCounts = new Map<string, number>()
  let soon: (() => void)[] = []
  let openCount = 0
  let sweepIsSet = false

  const runSoon = () => {
    const callbacks = soon
    soon = []
    for (const callback of callbacks) callback()
  }
  const idleLimitMs = ({ keepAliveSeconds }: Connection): number =>
    keepAliveSeconds === null ? idleMs : Math.min(idleMs, keepAliveSeconds * 1_000 - KEEP_ALIVE_MARGIN_MS)
  const owner = {
    authorities: authorities ?? null,
    soon(callback: () => void) {
      soon.push(callback)
      if (soon.length === 1) setImmediate(runSoon)
    },
    idle(connection: Connection) {
      const kept = idle.get(connection.origin.key) ?? []
      if (kept.length >= MAX_IDLE_PER_ORIGIN || idleLimitMs(connection) <= 0) return connection.close()
      if (kept.length === 0) idle.set(connection.origin.key, kept)
      connection.idleSinceMs = clock.monotonicMs()
      kept.push(connection)
      if (!sweepIsSet) sweepLater()
    },
    givenUp(connection: Connection) {
      givenUp.add(connection)
      const { name } = connection.origin
      givenUpCounts.set(name, (givenUpCounts.get(name) ?? 0) + 1)
    },
    closed(connection: Connection) {
      openCount -= 1
      if (givenUp.delete(connection)) {
        const { name } = connection.origin
        const left = (givenUpCounts.get(name) ?? 1) - 1
        if (left === 0) givenUpCounts.delete(name)
        else givenUpCounts.set(name, left)
      }
      const kept = idle.get(connection.origin.key)
      const index = kept?.indexOf(connection) ?? -1
      if (index >= 0) kept?.splice(index, 1)
      if (kept?.length === 0) idle.delete(connection.origin.key)
    },
    afterTail: (callback: () => void) => clock.after(TAIL_MS, callback),
  }
  const isStale = (connection: Connection) => clock.monotonicMs() - connection.idleSinceMs >= idleLimitMs(connection)
  const sweep = () => {
    sweepIsSet = false
    for (const connection of [...idle.values()].flat()) if (isStale(connection)) connection.close()
    if (idle.size > 0) sweepLater()
  }
  const sweepLater = () => {
    sweepIsSet = true
    clock.after(IDLE_MS, sweep)
  }
  /** The one used last: those that are not needed grow old and go. */
  const takeIdle = (origin: Origin): Connection | null => {
    const kept = idle.get(origin.key)
    for (let connection = kept?.pop(); connection !== undefined; connection = kept?.pop()) {
      if (kept?.length === 0) idle.delete(origin.key)
      if (!isStale(connection)) return connection
      connection.close()
    }
    return null
  }
  const connect = async (origin: Origin, { signal, connectMs }: HttpRequest): Promise<Connection> => {
    if (openCount >= MAX_CONNECTIONS) throw new HttpFailure('TOO_MANY_CONNECTIONS', false)
    if ((givenUpCounts.get(origin.name) ?? 0) >= givenUpMost) throw new HttpFailure('ETIMEDOUT', false)
    openCount += 1
    const connection = new Connection(origin, owner)
    let cancelled: unknown = null
    const giveUp = () => {
      cancelled = signal.aborted ? signal.reason : new HttpFailure('ETIMEDOUT', false)
      connection.close()
    }
    const cancelTimer = clock.after(connectMs, giveUp)
    signal.addEventListener('abort', giveUp)
    try {
      await connection.open()
      return connection
    } catch (error) {
      throw cancelled ?? error
    } finally {
      cancelTimer()
      signal.removeEventListener('abort', giveUp)
    }
  }
  const headOf = (headers: HttpRequest['headers']): string => {
    let head = heads.get(headers)
    if (head === undefined) {
      head = headerLines(headers)
      heads.set(headers, head)
    }
    return head
  }
  const find = (url: string): Destination => {
    let destination = destinations.get(url)
    if (destination === undefined) {
      destination = destinationOf(url)
      if (destinations.size >= MAX_DESTINATIONS) destinations.clear()
      destinations.set(url, destination)
    }
    return destination
  }

  const exchange = async (
    method: string,
    url: string,
    request: HttpRequest,
    body: string | null,
  ): Promise<HttpAnswer> => {
    const { origin: found, path } = find(url)
    const { address } = request
    const origin = address === undefined ? found : { ...found, address, key: `${found.key} at ${address}` }
    const lines = headOf(request.headers)
    request.signal.throwIfAborted()
    const length = body === null ? '' : `content-length: ${Buffer.byteLength(body)}\r\n`
    const head = `${method} ${path} HTTP/1.1\r\nhost: ${origin.host}\r\n${lines}${length}\r\n`
    for (;;) {
      const kept = takeIdle(origin)
      const connection = kept ?? (await connect(origin, request))
      if (request.signal.aborted) {
        owner.idle(connection)
        throw request.signal.reason
      }
      try {
        return await connection.send(body === null ? head : head + body, request).begun
      } catch (error) {
        // Closed by the server before a byte was written: this was no try. Each kept connection serves here once.
        if (kept === null || !(error instanceof HttpFailure) || error.outcomeUnknown) throw error
      }
    }
  }

  return {
    post: (url, request) => exchange('POST', url, request, request.body),
    send: (method, url, request) => exchange(method, url, request, null),
    close() {
      for (const connection of [...idle.values()].flat()) connection.close()
    },
  }
}

/** Throws TypeError for a value that could end its line. */
function headerLines(headers: HttpRequest['headers']): string {
  let lines = ''
  for (const [name, value] of Object.entries(headers)) {
    // The value may be a credential: it is not named.
    if (UNSENDABLE.test(value)) throw new TypeError(`the header ${name} has characters that HTTP does not carry`)
    lines += `${name}: ${value}\r\n`
  }
  return lines
}
