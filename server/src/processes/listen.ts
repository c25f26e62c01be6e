import { randomUUID } from 'node:crypto'
import type { DatabaseAddress } from '../infra/postgres/address.ts'
import { CONNECT_TIMEOUT_SECONDS, connectionSettings } from '../infra/postgres/client.ts'
import { doubledMs } from '../lib/backoff.ts'
import { type Clock, SECOND_MS } from '../lib/time.ts'

const PING_INTERVAL_MS = SECOND_MS
/** With the interval this bounds how long a silent connection is believed: 2.5 s. */
const PING_TIMEOUT_MS = 1_500
/** Bun brings back a connection that closed. One that is merely silent must be thrown away, by us. */
const SILENT_LIMIT_MS = 10 * SECOND_MS
const BACKOFF_FIRST_MS = 200
const BACKOFF_LIMIT_MS = 5 * SECOND_MS

export interface ListenerOptions {
  readonly clock: Clock
  /**
   * The callbacks that take a notification's payload, by channel (lower-case, at most 63 bytes). They must not throw.
   */
  readonly channels: Readonly<Record<string, (payload: string) => void>>
  /**
   * Told of each change. On `true`, notifications may have been missed before: drop what was cached until then. On
   * `false`, ask the database instead of a cache.
   */
  readonly onConfirmed: (confirmed: boolean) => void
}

/** Hears notifications for as long as it is open, over whatever connection it can get. */
export interface Listener {
  /** True when notifications are known to arrive: a ping of ours came back over the same connection within 2.5 s. */
  readonly confirmed: boolean
  close(): Promise<void>
}

/**
 * Listens on channels. Returns at once, unconfirmed; connects, and reconnects after 0.2 to 5 s, for as long as it is
 * open. A ping is a NOTIFY of our own that must come back over the listening connection, so a confirmed listener has
 * been given everything that was notified before its last ping.
 */
export function openListener(address: DatabaseAddress, options: ListenerOptions): Listener {
  const { clock } = options
  const pingChannel = `ping_${randomUUID().replaceAll('-', '')}`
  let confirmed = false
  let closed = false
  let failures = 0
  let end = async () => {}

  const setConfirmed = (value: boolean) => {
    if (closed || confirmed === value) return
    confirmed = value
    options.onConfirmed(value)
  }
  const connect = () => {
    const connection = new ListeningConnection(address.url, options, pingChannel, {
      onPong() {
        failures = 0
        setConfirmed(true)
      },
      onDoubt: () => setConfirmed(false),
      onEnd() {
        if (closed) return
        const cancel = clock.after(doubledMs(BACKOFF_FIRST_MS, BACKOFF_LIMIT_MS, failures), connect)
        failures += 1
        end = async () => cancel()
      },
    })
    end = () => connection.finish()
    connection.start()
  }

  connect()
  const forgetMoves = address.onMoved(() => {
    setConfirmed(false)
    void end()
    connect()
  })
  return {
    get confirmed() {
      return confirmed
    },
    async close() {
      closed = true
      forgetMoves()
      await end()
    },
  }
}

/** Told by a connection for as long as it is not over. */
interface ConnectionEvents {
  /** A ping has come back. */
  onPong(): void
  /** The connection closed, or a ping is late. */
  onDoubt(): void
  /** The connection is over, and another may be made. */
  onEnd(): void
}

/** One connection that listens, and pings itself once a second. */
class ListeningConnection {
  private readonly options: ListenerOptions
  private readonly pingChannel: string
  private readonly events: ConnectionEvents
  private readonly sql: Bun.SQL
  /** The ping that must come back; null after the connection has closed: what comes back then proves nothing. */
  private awaited: string | null = null
  private isOver = false
  private cancelTimer = () => {}
  private cancelSilence = () => {}

  constructor(url: string, options: ListenerOptions, pingChannel: string, events: ConnectionEvents) {
    this.options = options
    this.pingChannel = pingChannel
    this.events = events
    this.sql = new Bun.SQL({
      url,
      adapter: 'postgres',
      max: 1,
      connectionTimeout: CONNECT_TIMEOUT_SECONDS,
      // A ping need not be flushed to disk.
      connection: { ...connectionSettings('tollgate listener', 5 * SECOND_MS), synchronous_commit: 'off' },
      onclose: () => {
        this.awaited = null
        if (!this.isOver) events.onDoubt()
      },
    })
  }

  start(): void {
    this.expectSign()
    this.subscribe().catch(() => this.restart())
  }

  async finish(): Promise<void> {
    this.isOver = true
    this.cancelTimer()
    this.cancelSilence()
    await this.sql.close({ timeout: 0 }).catch(() => {})
  }

  private async subscribe(): Promise<void> {
    for (const [channel, callback] of Object.entries(this.options.channels)) await this.sql.listen(channel, callback)
    await this.sql.listen(this.pingChannel, (token) => this.takePong(token))
    if (!this.isOver) this.ping()
  }

  /** Gives the connection up when it stays silent from now on. */
  private expectSign(): void {
    this.cancelSilence()
    this.cancelSilence = this.options.clock.after(SILENT_LIMIT_MS, () => this.restart())
  }

  private restart(): void {
    if (this.isOver) return
    this.events.onDoubt()
    void this.finish()
    this.events.onEnd()
  }

  private ping(): void {
    const token = randomUUID()
    this.awaited = token
    this.cancelTimer = this.options.clock.after(PING_TIMEOUT_MS, () => {
      this.events.onDoubt()
      this.ping()
    })
    this.sql.notify(this.pingChannel, token).catch(() => {
      if (this.awaited === token) this.awaited = null
    })
  }

  private takePong(token: string): void {
    if (this.isOver || token !== this.awaited) return
    this.awaited = null
    this.cancelTimer()
    this.expectSign()
    this.cancelTimer = this.options.clock.after(PING_INTERVAL_MS, () => this.ping())
    this.events.onPong()
  }
}
