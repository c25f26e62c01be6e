import type { Timers } from '../../lib/time.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { type DatabaseAddress, toAddress } from './address.ts'
import { endBackend, findHolder } from './backends.ts'
import { connectionSettings, runStatement } from './client.ts'
import type { Queryable } from './database.ts'
import { sqlStateOf } from './faults.ts'

const HEARTBEAT_MS = SECOND_MS
/** An unanswered heartbeat: the server hangs, or the network swallows what is sent. As long as that of the listener's pings. */
const ANSWER_TIMEOUT_MS = 1_500
/**
 * A process that was stopped and goes on finds its timers due before it has read the answer that came meanwhile. So
 * a heartbeat is given up only after this much more of a running event loop.
 */
const SECOND_LOOK_MS = 500
const STATEMENT_TIMEOUT_MS = 5 * SECOND_MS
/** Short: an attempt that began while the network was cut is to be over soon after the cut is. */
const CONNECT_TIMEOUT_MS = 2_500

/**
 * A host that vanished without a word, or a network that forgot the connection, frees the locks within about 15 s. Set by a
 * statement: poolers refuse `tcp_user_timeout` when a connection opens.
 */
const VANISHING = `set tcp_user_timeout = '10s'; set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 2`

/** Names a connection in `pg_stat_activity`. */
export interface SessionName {
  /** Its purpose, such as `slot`. */
  readonly kind: string
  /** Of the process (`processToken.ts`); null: the process has none, and no older connections that it could end. */
  readonly token: string | null
}

/** Returns the application name of a connection. Names of one process end with its token. */
export function applicationNameOf({ kind, token }: SessionName): string {
  return token === null ? `tollgate ${kind}` : `tollgate ${kind} ${token}`
}

/**
 * One pinned connection, for session advisory locks. The server holds the locks as long as the connection lives: a
 * process killed loses them at once, a stopped one (SIGSTOP) keeps them. When the connection is lost the session is
 * over for good; it never reconnects, because the locks would be gone without notice.
 */
export interface Session extends Queryable {
  /** Takes the exclusive lock (`lockClass`, `id`; both int4) if nobody holds it; false when somebody does. */
  tryLock(lockClass: number, id: number): Promise<boolean>
  /** Takes the shared lock unless somebody holds it exclusively. */
  tryLockShared(lockClass: number, id: number): Promise<boolean>
  /** Gives back an exclusive lock of this session; false when it did not hold it. */
  unlock(lockClass: number, id: number): Promise<boolean>
  unlockShared(lockClass: number, id: number): Promise<boolean>
  /**
   * Ends the connection that holds an exclusive lock, if it is an older one of this process, of the same kind: the network swallows
   * what it sends, and the server has not noticed. False where nobody has the lock, or somebody else.
   */
  endOlder(lockClass: number, id: number): Promise<boolean>
  /** True once the connection, and every lock with it, must be taken for lost. */
  readonly lost: boolean
  /** True when it was lost because no answer came: what else goes the same way may be silent too. */
  readonly fellSilent: boolean
  /** Calls back once when the connection is lost (at once if it is); not after `close`. */
  onLost(callback: () => void): void
  /** Gives up all locks and the connection. */
  close(): Promise<void>
}

/**
 * Connects within 2.5 s, once the host is chosen where there are several. From then on the connection is asked for a sign
 * of life every second, which others can see too. It counts as lost when it closes, or within 3 s of the server falling
 * silent.
 *
 * @throws a connection failure (see `client.ts`) when the server can't be reached.
 */
export async function openSession(
  at: string | DatabaseAddress,
  clock: Timers,
  name: SessionName = { kind: 'holder', token: null },
): Promise<Session> {
  const applicationName = applicationNameOf(name)
  const address = toAddress(at)
  await address.choose()
  const pool = new Bun.SQL({
    url: address.url,
    adapter: 'postgres',
    bigint: true,
    max: 1,
    connectionTimeout: CONNECT_TIMEOUT_MS / SECOND_MS,
    connection: connectionSettings(applicationName, STATEMENT_TIMEOUT_MS),
    onclose: () => pulse.lose(),
  })
  // Another host comes into use: the locks are to be had there.
  const forgetMoves = address.onMoved(() => pulse.lose())
  const pulse = new Pulse(clock, () => {
    forgetMoves()
    return pool.close({ timeout: 0 })
  })
  const connection = await connect(pool, pulse, clock)
  const query: Queryable['query'] = (text, parameters) => runStatement(connection, text, parameters)
  const lockCall = async (called: string, lockClass: number, id: number) => {
    const rows = await query<{ done: boolean }>(`select ${called}($1::int4, $2::int4) as done`, [lockClass, id])
    return rows[0]?.done === true
  }
  return {
    query,
    tryLock: (lockClass, id) => lockCall('pg_try_advisory_lock', lockClass, id),
    tryLockShared: (lockClass, id) => lockCall('pg_try_advisory_lock_shared', lockClass, id),
    unlock: (lockClass, id) => lockCall('pg_advisory_unlock', lockClass, id),
    unlockShared: (lockClass, id) => lockCall('pg_advisory_unlock_shared', lockClass, id),
    async endOlder(lockClass, id) {
      if (name.token === null) return false
      const holder = await findHolder({ query }, lockClass, id)
      return holder?.applicationName === applicationName && (await endBackend({ query }, holder))
    },
    get lost() {
      return pulse.lost
    },
    get fellSilent() {
      return pulse.fellSilent
    },
    onLost: (callback) => pulse.onLost(callback),
    close: () => pulse.end(),
  }
}

async function connect(pool: Bun.SQL, pulse: Pulse, clock: Timers): Promise<Bun.ReservedSQL> {
  // By the same clock as all else; the limit that the pool itself has is in real time.
  const cancel = clock.after(CONNECT_TIMEOUT_MS, () => void pulse.end().catch(() => {}))
  try {
    const connection = await pool.reserve()
    pulse.start(() => connection.unsafe('select 1'))
    await connection.unsafe(VANISHING).catch((error: unknown) => {
      // A server that knows no such setting, or does not let it be set, keeps the locks of a vanished host for a minute.
      if (sqlStateOf(error) === null) throw error
    })
    return connection
  } catch (error) {
    await pulse.end().catch(() => {})
    throw error
  } finally {
    cancel()
  }
}

/** Asks one connection for signs of life, and tells when it is lost. */
class Pulse {
  lost = false
  fellSilent = false
  private isEnded = false
  private readonly clock: Timers
  private readonly disconnect: () => Promise<void>
  private readonly callbacks: (() => void)[] = []
  private cancelTimer = () => {}

  constructor(clock: Timers, disconnect: () => Promise<void>) {
    this.clock = clock
    this.disconnect = disconnect
  }

  start(ask: () => PromiseLike<unknown>): void {
    this.cancelTimer = this.clock.after(HEARTBEAT_MS, () => this.beat(ask))
  }

  lose(): void {
    if (this.lost || this.isEnded) return
    this.lost = true
    this.cancelTimer()
    void this.disconnect().catch(() => {})
    for (const callback of this.callbacks.splice(0)) callback()
  }

  onLost(callback: () => void): void {
    if (this.lost) callback()
    else this.callbacks.push(callback)
  }

  async end(): Promise<void> {
    this.isEnded = true
    this.cancelTimer()
    await this.disconnect()
  }

  private beat(ask: () => PromiseLike<unknown>): void {
    const isOver = () => this.lost || this.isEnded
    const giveUp = () => {
      this.cancelTimer = this.clock.after(SECOND_LOOK_MS, () => {
        this.fellSilent = !isOver()
        this.lose()
      })
    }
    this.cancelTimer = this.clock.after(ANSWER_TIMEOUT_MS, giveUp)
    ask().then(
      () => {
        this.cancelTimer()
        if (!isOver()) this.start(ask)
      },
      () => this.lose(),
    )
  }
}
