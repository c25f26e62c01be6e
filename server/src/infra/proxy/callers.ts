/** The connections of callers to a port: which of them end, and when. */

import type { Duplex } from 'node:stream'
import { type Clock, MINUTE_MS, SECOND_MS } from '../../lib/time.ts'
import { Watchdog } from '../../lib/watchdog.ts'

/** Connections at one time. */
const CONNECTIONS_MOST = 2_000

/** Connections of one caller that wait for the head of a request: more than a browser or an untrusted proxy keeps. */
const WAITING_OF_CALLER_MOST = 256

/** For the head of a request, from the connection or the answer before on. */
const HEAD_MS = 15 * SECOND_MS

/** A request of which no byte comes or goes for so long is over. */
const IDLE_MS = 10 * MINUTE_MS

/**
 * A request of whose body the other server has taken no byte for so long is over: nobody sees whether its caller has left, behind
 * what is not read.
 */
const STALLED_MS = MINUTE_MS

/** Names whose connection it is by its address; null: of a proxy, behind which there are many. */
export type CallerOf = (address: string) => string | null

/** The connections of callers. */
export interface Callers {
  readonly count: number
  /**
   * Notes a connection. Where there are too many, of its caller or of all, the one that has waited longest for a head is closed;
   * the new one itself where none waits.
   */
  add(socket: Duplex, address: string): void
  /** A head came on it. */
  asked(socket: Duplex): void
  /** Bytes of a request or an answer went. */
  onBytes(socket: Duplex): void
  /** The other server takes no more of what is sent on it, or takes it again, or is not sent any more. */
  stalled(socket: Duplex, isStalled: boolean): void
  /** An answer is over. */
  answered(socket: Duplex): void
  /** Closes all. */
  close(): void
}

interface Connection {
  readonly watchdog: Watchdog
  readonly caller: string | null
  requests: number
  /** Of these, those whose body is not taken. */
  stalled: number
}

export function createCallers(clock: Clock, callerOf: CallerOf): Callers {
  const connections = new Map<Duplex, Connection>()
  const waiting = createWaiting()
  const forget = (socket: Duplex) => {
    const connection = connections.get(socket)
    if (connection === undefined) return
    connection.watchdog.stop()
    connections.delete(socket)
    waiting.delete(connection.caller, socket)
  }
  const close = (socket: Duplex) => {
    forget(socket)
    socket.destroy()
  }
  const went = (socket: Duplex, change: (connection: Connection) => void = () => {}) => {
    const connection = connections.get(socket)
    if (connection === undefined) return
    change(connection)
    connection.watchdog.due(clock.monotonicMs() + allowedMs(connection))
  }
  const makeRoom = (caller: string | null) => {
    const own =
      caller !== null && waiting.countOf(caller) >= WAITING_OF_CALLER_MOST ? waiting.oldestOf(caller) : undefined
    if (own !== undefined) close(own)
    else if (connections.size >= CONNECTIONS_MOST) {
      const oldest = waiting.oldest()
      if (oldest !== undefined) close(oldest)
    }
    return connections.size < CONNECTIONS_MOST
  }
  return {
    get count() {
      return connections.size
    },
    add(socket, address) {
      const caller = callerOf(address)
      if (!makeRoom(caller)) {
        socket.destroy()
        return
      }
      const watchdog = new Watchdog(clock, () => close(socket))
      watchdog.due(clock.monotonicMs() + HEAD_MS)
      connections.set(socket, { watchdog, caller, requests: 0, stalled: 0 })
      waiting.add(caller, socket)
      socket.on('close', () => forget(socket))
    },
    asked(socket) {
      went(socket, (connection) => {
        connection.requests += 1
        waiting.delete(connection.caller, socket)
      })
    },
    onBytes: (socket) => went(socket),
    stalled(socket, isStalled) {
      went(socket, (connection) => {
        connection.stalled += isStalled ? 1 : -1
      })
    },
    answered(socket) {
      went(socket, (connection) => {
        connection.requests -= 1
        if (connection.requests === 0) waiting.add(connection.caller, socket)
      })
    },
    close() {
      for (const socket of [...connections.keys()]) close(socket)
    },
  }
}

/** For how long nothing may go on a connection. */
function allowedMs({ requests, stalled }: Connection): number {
  if (requests === 0) return HEAD_MS
  return stalled > 0 ? STALLED_MS : IDLE_MS
}

/** The connections that wait for a head, those that have waited longest first. */
function createWaiting() {
  const all = new Set<Duplex>()
  const byCaller = new Map<string, Set<Duplex>>()
  return {
    add(caller: string | null, socket: Duplex): void {
      all.add(socket)
      if (caller !== null) byCaller.set(caller, (byCaller.get(caller) ?? new Set()).add(socket))
    },
    delete(caller: string | null, socket: Duplex): void {
      all.delete(socket)
      if (caller === null) return
      const own = byCaller.get(caller)
      own?.delete(socket)
      if (own?.size === 0) byCaller.delete(caller)
    },
    countOf: (caller: string) => byCaller.get(caller)?.size ?? 0,
    oldestOf: (caller: string): Duplex | undefined => byCaller.get(caller)?.values().next().value,
    oldest: (): Duplex | undefined => all.values().next().value,
  }
}
