import type { Clock } from '../../lib/time.ts'
import { HttpFailure, type HttpRequest } from '../httpClient.ts'
import { Connection, type ConnectionOwner } from './connection.ts'
import type { Origin } from './origin.ts'

/** Servers close idle connections after 5 s (Node, uvicorn, llama.cpp) or later. We close first, so that few calls meet that moment. */
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

export interface PoolOptions {
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

/** The connections of one client: opens them, keeps idle ones for a while, and bounds them. */
export class ConnectionPool implements ConnectionOwner {
  readonly authorities: readonly string[] | null
  private readonly clock: Clock
  private readonly idleMs: number
  private readonly givenUpMost: number
  /** Idle connections by the key of their origin; the one used last stands last. */
  private readonly idleByOrigin = new Map<string, Connection[]>()
  private readonly abandoned = new Set<Connection>()
  /** The number of abandoned connections of each origin, by its name. */
  private readonly abandonedCounts = new Map<string, number>()
  private callbacks: (() => void)[] = []
  private openCount = 0
  private sweepIsSet = false

  constructor(clock: Clock, { idleMs = IDLE_MS, authorities, givenUpMost = MAX_GIVEN_UP }: PoolOptions = {}) {
    this.clock = clock
    this.idleMs = idleMs
    this.authorities = authorities ?? null
    this.givenUpMost = givenUpMost
  }

  /** Returns an idle connection: the one used last, so that those that are not needed grow old and go. Null: there is none. */
  takeIdle(origin: Origin): Connection | null {
    const kept = this.idleByOrigin.get(origin.key)
    for (let connection = kept?.pop(); connection !== undefined; connection = kept?.pop()) {
      if (kept?.length === 0) this.idleByOrigin.delete(origin.key)
      if (!this.isStale(connection)) return connection
      connection.close()
    }
    return null
  }

  /** Opens a connection. Throws {@link HttpFailure}, or the reason of the request's signal. */
  async connect(origin: Origin, { signal, connectMs }: HttpRequest): Promise<Connection> {
    if (this.openCount >= MAX_CONNECTIONS) throw new HttpFailure('TOO_MANY_CONNECTIONS', false)
    if ((this.abandonedCounts.get(origin.name) ?? 0) >= this.givenUpMost) throw new HttpFailure('ETIMEDOUT', false)
    this.openCount += 1
    const connection = new Connection(origin, this)
    let cancelled: unknown = null
    const giveUp = () => {
      cancelled = signal.aborted ? signal.reason : new HttpFailure('ETIMEDOUT', false)
      connection.close()
    }
    const cancelTimer = this.clock.after(connectMs, giveUp)
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

  /** Closes the idle connections; those at work end with their exchange. */
  close(): void {
    for (const connection of [...this.idleByOrigin.values()].flat()) connection.close()
  }

  soon(callback: () => void): void {
    this.callbacks.push(callback)
    if (this.callbacks.length === 1) setImmediate(this.runCallbacks)
  }

  idle(connection: Connection): void {
    const kept = this.idleByOrigin.get(connection.origin.key) ?? []
    if (kept.length >= MAX_IDLE_PER_ORIGIN || this.idleLimitMs(connection) <= 0) {
      connection.close()
      return
    }
    if (kept.length === 0) this.idleByOrigin.set(connection.origin.key, kept)
    connection.idleSinceMs = this.clock.monotonicMs()
    kept.push(connection)
    if (!this.sweepIsSet) this.sweepLater()
  }

  givenUp(connection: Connection): void {
    this.abandoned.add(connection)
    const { name } = connection.origin
    this.abandonedCounts.set(name, (this.abandonedCounts.get(name) ?? 0) + 1)
  }

  closed(connection: Connection): void {
    this.openCount -= 1
    if (this.abandoned.delete(connection)) this.forgetAbandoned(connection.origin)
    const kept = this.idleByOrigin.get(connection.origin.key)
    const index = kept?.indexOf(connection) ?? -1
    if (index >= 0) kept?.splice(index, 1)
    if (kept?.length === 0) this.idleByOrigin.delete(connection.origin.key)
  }

  afterTail(callback: () => void): () => void {
    return this.clock.after(TAIL_MS, callback)
  }

  private readonly runCallbacks = () => {
    const { callbacks } = this
    this.callbacks = []
    for (const callback of callbacks) callback()
  }

  private forgetAbandoned({ name }: Origin): void {
    const left = (this.abandonedCounts.get(name) ?? 1) - 1
    if (left === 0) this.abandonedCounts.delete(name)
    else this.abandonedCounts.set(name, left)
  }

  private idleLimitMs({ keepAliveSeconds }: Connection): number {
    if (keepAliveSeconds === null) return this.idleMs
    return Math.min(this.idleMs, keepAliveSeconds * 1_000 - KEEP_ALIVE_MARGIN_MS)
  }

  private isStale(connection: Connection): boolean {
    return this.clock.monotonicMs() - connection.idleSinceMs >= this.idleLimitMs(connection)
  }

  private sweepLater(): void {
    this.sweepIsSet = true
    this.clock.after(IDLE_MS, () => this.sweep())
  }

  private sweep(): void {
    this.sweepIsSet = false
    for (const connection of [...this.idleByOrigin.values()].flat()) if (this.isStale(connection)) connection.close()
    if (this.idleByOrigin.size > 0) this.sweepLater()
  }
}
