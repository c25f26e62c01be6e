import { randomUUID } from 'node:crypto'
import type { Clock } from '../../kernel/time.ts'
import { SECOND_MS } from '../../kernel/time.ts'
import { connectionSettings } from './client.ts'

const PING_INTERVAL_MS = SECOND_MS
/** With the interval this bounds how long a silent connection is believed: 2.5 s. */
const PING_TIMEOUT_MS = 1_500
/** Bun brings back a connection that closed. One that is merely silent must be thrown away, by us. */
const SILENT_LIMIT_MS = 10 * SECOND_MS
const BACKOFF_FIRST_MS = 200
const BACKOFF_LIMIT_MS = 5 * SECOND_MS
const CONNECT_TIMEOUT_SECONDS = 5

export interface ListenerOptions {
  readonly clock: Clock
  /** What to do with a notification's payload, by channel (lower-case, at most 63 bytes). Must not throw. */
  readonly channels: Readonly<Record<string, (payload: string) => void>>
  /**
   * Told of each change. On `true`, notifications may have been missed before: drop what was cached until then. On
   * `false`, ask the database instead of a cache.
   */
  readonly onConfirmed: (confirmed: boolean) => void
}

/** Hears notifications for as long as it is open, over whatever connection it can get. */
export interface Listener {
  /** Whether notifications are known to arrive: a ping of ours came back over the same connection within 2.5 s. */
  readonly confirmed: boolean
  close(): Promise<void>
}

/**
 * Listens on channels. Returns at once, unconfirmed; connects, and reconnects after 0.2 to 5 s, for as long as it is
 * open. A ping is a NOTIFY of our own that must come back over the listening connection, so a confirmed listener has
 * been given everything that was notified before its last ping.
 */
export function openListener(url: string, options: ListenerOptions): Listener {
  const { clock } = options
  const pingChannel = `ping_${randomUUID().replaceAll('-', '')}`
  let confirmed = false
  let closed = false
  let backoffMs = BACKOFF_FIRST_MS
  let end = async () => {}

  function setConfirmed(value: boolean): void {
    if (closed || confirmed === value) return
    confirmed = value
    options.onConfirmed(value)
  }

  function connect(): void {
    // A connection closed under a ping on its way: whatever comes back now proves nothing about what was missed.
    let awaited: string | null = null
    let over = false
    let cancelTimer = () => {}
    let cancelSilence = () => {}
    const sql = new Bun.SQL({
      url,
      adapter: 'postgres',
      max: 1,
      connectionTimeout: CONNECT_TIMEOUT_SECONDS,
      // A ping need not be flushed to disk.
      connection: { ...connectionSettings('tollgate listener', 5 * SECOND_MS), synchronous_commit: 'off' },
      onclose: () => {
        awaited = null
        if (!over) setConfirmed(false)
      },
    })

    async function finish(): Promise<void> {
      over = true
      cancelTimer()
      cancelSilence()
      await sql.close({ timeout: 0 }).catch(() => {})
    }

    function restart(): void {
      if (over) return
      setConfirmed(false)
      void finish()
      if (closed) return
      const cancel = clock.after(backoffMs, connect)
      backoffMs = Math.min(backoffMs * 2, BACKOFF_LIMIT_MS)
      end = async () => cancel()
    }

    function ping(): void {
      const token = randomUUID()
      awaited = token
      cancelTimer = clock.after(PING_TIMEOUT_MS, () => {
        setConfirmed(false)
        ping()
      })
      sql.notify(pingChannel, token).catch(() => {
        if (awaited === token) awaited = null
      })
    }

    function pong(token: string): void {
      if (over || token !== awaited) return
      awaited = null
      backoffMs = BACKOFF_FIRST_MS
      cancelTimer()
      cancelSilence()
      cancelSilence = clock.after(SILENT_LIMIT_MS, restart)
      cancelTimer = clock.after(PING_INTERVAL_MS, ping)
      setConfirmed(true)
    }

    async function subscribe(): Promise<void> {
      for (const [channel, callback] of Object.entries(options.channels)) await sql.listen(channel, callback)
      await sql.listen(pingChannel, pong)
      if (!over) ping()
    }

    end = finish
    cancelSilence = clock.after(SILENT_LIMIT_MS, restart)
    subscribe().catch(restart)
  }

  connect()
  return {
    get confirmed() {
      return confirmed
    },
    async close() {
      closed = true
      await end()
    },
  }
}
