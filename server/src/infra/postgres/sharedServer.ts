import type { Timers } from '../../lib/time.ts'
import { MINUTE_MS, sleep } from '../../lib/time.ts'
import type { EmbeddedOptions, EmbeddedServer } from './embedded.ts'
import { startEmbedded } from './embedded.ts'
import { isConnectionFailure } from './faults.ts'
import { LOCK_CLASS } from './locks.ts'
import type { Session, SessionName } from './session.ts'
import { openSession } from './session.ts'

/**
 * How processes share an embedded server. Each one that uses it holds the lock `inUse` shared, on a session. A
 * process that leaves gives that up and tries to get the lock exclusively. The one that gets it is the last one: it
 * keeps the lock while the server stops, and so turns away those that come meanwhile; they wait and start the server
 * anew.
 */

/** Longer than a clean stop, or the recovery after a crash, may take. */
const JOIN_TIMEOUT_MS = 2 * MINUTE_MS
const JOIN_POLL_MS = 20

export interface Joined {
  readonly server: EmbeddedServer
  /** Holds the shared lock. */
  readonly session: Session
}

/** Starts or adopts the server of a data directory and registers as one of its users, over a session of this name. */
export async function joinServer(options: EmbeddedOptions, name: SessionName): Promise<Joined> {
  const { clock } = options
  const giveUpAtMs = clock.monotonicMs() + JOIN_TIMEOUT_MS
  for (;;) {
    const server = await startEmbedded(options)
    const session = await register(server, clock, name)
    if (session !== null) return { server, session }
    if (clock.monotonicMs() > giveUpAtMs) {
      throw new Error(
        `The database of ${options.dataDir} has been stopping for ${JOIN_TIMEOUT_MS / MINUTE_MS} minutes; ` +
          'end its postgres process, then start again.',
      )
    }
    await sleep(clock, JOIN_POLL_MS)
  }
}

/** Registers anew after the connection was lost; starts the server, on the same port, if it has gone. */
export async function rejoinServer(server: EmbeddedServer, clock: Timers, name: SessionName): Promise<Session> {
  await server.ensureRunning()
  const session = await register(server, clock, name)
  if (session === null) throw new Error('PostgreSQL is starting or stopping.')
  return session
}

/** Null while the server is on its way up or down. */
async function register(server: EmbeddedServer, clock: Timers, name: SessionName): Promise<Session | null> {
  let session: Session | null = null
  try {
    session = await openSession(server.url, clock, name)
    if (await session.tryLockShared(LOCK_CLASS.inUse, 0)) return session
  } catch (error) {
    if (!isConnectionFailure(error)) throw error
  }
  await session?.close()
  return null
}

/** Stops being a user; the last one stops the server. Ends the session. */
export async function leaveServer(server: EmbeddedServer, session: Session): Promise<void> {
  try {
    // A lost session no longer tells whether we are the last: then the server is left to whoever comes next.
    if (!session.lost && (await isLast(session))) await server.stop()
  } finally {
    await session.close()
  }
}

async function isLast(session: Session): Promise<boolean> {
  try {
    await session.unlockShared(LOCK_CLASS.inUse, 0)
    return await session.tryLock(LOCK_CLASS.inUse, 0)
  } catch (error) {
    if (isConnectionFailure(error)) return false
    throw error
  }
}
