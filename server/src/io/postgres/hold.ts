import type { Clock } from '../../kernel/time.ts'
import { SECOND_MS, sleep } from '../../kernel/time.ts'
import { LOCK_CLASS } from './locks.ts'
import type { Session } from './session.ts'

/** A gateway killed a moment ago: its connection, and the lock on it, are gone within milliseconds. */
const OWNERSHIP_PATIENCE_MS = SECOND_MS
const OWNERSHIP_POLL_MS = 20
const REGAIN_BACKOFF_FIRST_MS = 50
const REGAIN_BACKOFF_LIMIT_MS = 5 * SECOND_MS

/** What was held can't be had again, ever: somebody else has it, or it has moved. */
export class HoldLost extends Error {
  override readonly name = 'HoldLost'
}

/**
 * Takes the data directory for this process.
 *
 * @throws HoldLost when another process has it.
 */
export async function takeOwnership(session: Session, lockId: number, dataDir: string, clock: Clock): Promise<void> {
  const giveUpAtMs = clock.monotonicMs() + OWNERSHIP_PATIENCE_MS
  while (!(await session.tryLock(LOCK_CLASS.ownership, lockId))) {
    if (clock.monotonicMs() > giveUpAtMs) {
      throw new HoldLost(
        `Another Tollgate server already serves from the data directory ${dataDir}; ` +
          'stop it, or start this one with another --data-dir.',
      )
    }
    await sleep(clock, OWNERSHIP_POLL_MS)
  }
}

export interface Hold {
  /** The session that has the locks now. It may be lost, while it is being regained. */
  session(): Session
  /** Stops regaining. The session is the caller's to close. */
  letGo(): void
}

export interface HoldOptions {
  readonly clock: Clock
  readonly log: (message: string) => void
  /** Called once when regaining has failed for good. */
  readonly onLost: (reason: string) => void
}

/**
 * Keeps a session with its locks: when it is lost, `connect` is called again, after 0.05 to 5 s, until it succeeds or
 * throws {@link HoldLost}. Passes on what the first `connect` throws.
 */
export async function hold(connect: () => Promise<Session>, options: HoldOptions): Promise<Hold> {
  let session = await connect()
  let released = false

  async function regain(): Promise<void> {
    if (released) return
    options.log('the connection that holds our locks in the database is lost; connecting again')
    let said = ''
    for (
      let backoffMs = REGAIN_BACKOFF_FIRST_MS;
      !released;
      backoffMs = Math.min(backoffMs * 2, REGAIN_BACKOFF_LIMIT_MS)
    ) {
      try {
        session = await connect()
        if (released) await session.close()
        else session.onLost(() => void regain())
        options.log('connected to the database again, our locks are held')
        return
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error)
        if (error instanceof HoldLost) return options.onLost(message)
        // Said once for each cause: an outage of hours must not fill a disk.
        if (message !== said) options.log(`the database is still away: ${message}`)
        said = message
        await sleep(options.clock, backoffMs)
      }
    }
  }

  session.onLost(() => void regain())
  return {
    session: () => session,
    letGo: () => {
      released = true
    },
  }
}
