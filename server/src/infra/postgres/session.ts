import type { Timers } from '../../lib/time.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { CONNECT_TIMEOUT_SECONDS, connectionSettings, runStatement } from './client.ts'
import type { Queryable } from './database.ts'

const HEARTBEAT_MS = SECOND_MS
/** An unanswered heartbeat: the server hangs, or the network swallows what is sent. */
const ANSWER_TIMEOUT_MS = 3 * SECOND_MS
/**
 * A process that was stopped and goes on finds its timers due before it has read the answer that came meanwhile. So
 * a heartbeat is given up only after this much more of a running event loop.
 */
const SECOND_LOOK_MS = 500
const STATEMENT_TIMEOUT_MS = 5 * SECOND_MS

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
  /** True once the connection, and every lock with it, must be taken for lost. */
  readonly lost: boolean
  /** Calls back once when the connection is lost (at once if it is); not after `close`. */
  onLost(callback: () => void): void
  /** Gives up all locks and the connection. */
  close(): Promise<void>
}

/**
 * Connects. From then on the connection is asked for a sign of life every second; it counts as lost when it closes,
 * or within 5 s of the server falling silent.
 *
 * @throws a connection failure (see `client.ts`) when the server can't be reached.
 */
export async function openSession(url: string, clock: Timers, applicationName = 'tollgate session'): Promise<Session> {
  const pool = new Bun.SQL({
    url,
    adapter: 'postgres',
    bigint: true,
    max: 1,
    connectionTimeout: CONNECT_TIMEOUT_SECONDS,
    connection: connectionSettings(applicationName, STATEMENT_TIMEOUT_MS),
    onclose: () => lose(),
  })
  const callbacks: (() => void)[] = []
  let lost = false
  let closed = false
  let cancelTimer = () => {}

  function lose(): void {
    if (lost || closed) return
    lost = true
    cancelTimer()
    void pool.close({ timeout: 0 }).catch(() => {})
    for (const callback of callbacks.splice(0)) callback()
  }

  const connection = await pool.reserve().catch(async (error: unknown) => {
    await pool.close({ timeout: 0 }).catch(() => {})
    throw error
  })

  function beat(): void {
    const giveUp = () => {
      cancelTimer = clock.after(SECOND_LOOK_MS, lose)
    }
    cancelTimer = clock.after(ANSWER_TIMEOUT_MS, giveUp)
    connection.unsafe('select 1').then(() => {
      cancelTimer()
      if (!lost && !closed) cancelTimer = clock.after(HEARTBEAT_MS, beat)
    }, lose)
  }
  cancelTimer = clock.after(HEARTBEAT_MS, beat)

  async function lockCall(name: string, lockClass: number, id: number): Promise<boolean> {
    const rows = await runStatement<{ done: boolean }>(connection, `select ${name}($1::int4, $2::int4) as done`, [
      lockClass,
      id,
    ])
    return rows[0]?.done === true
  }

  return {
    query: (text, parameters) => runStatement(connection, text, parameters),
    tryLock: (lockClass, id) => lockCall('pg_try_advisory_lock', lockClass, id),
    tryLockShared: (lockClass, id) => lockCall('pg_try_advisory_lock_shared', lockClass, id),
    unlock: (lockClass, id) => lockCall('pg_advisory_unlock', lockClass, id),
    unlockShared: (lockClass, id) => lockCall('pg_advisory_unlock_shared', lockClass, id),
    get lost() {
      return lost
    },
    onLost(callback) {
      if (lost) callback()
      else callbacks.push(callback)
    },
    async close() {
      closed = true
      cancelTimer()
      await pool.close({ timeout: 0 })
    },
  }
}
