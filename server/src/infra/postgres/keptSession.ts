import { doubledMs } from '../../lib/backoff.ts'
import type { Timers } from '../../lib/time.ts'
import { sleep } from '../../lib/time.ts'
import type { Session } from './session.ts'

const REGAIN_BACKOFF_FIRST_MS = 50
/** Calls go on within 5 s of a cut's end: of these an attempt that began in the cut takes up to 2.5. */
const REGAIN_BACKOFF_LIMIT_MS = 250

/** The locks of the session can't be had again, ever: somebody else has them, or the database has moved. */
export class SessionOwnershipLost extends Error {
  override readonly name = 'SessionOwnershipLost'
}

export interface KeptSession {
  /** The session that has the locks now. It may be lost, while it is being regained. */
  session(): Session
  /** Stops regaining. The session is the caller's to close. */
  letGo(): void
}

export interface KeptSessionOptions {
  readonly clock: Timers
  readonly log: (message: string) => void
  /** Called once when regaining has failed for good. */
  readonly onLost: (reason: string) => void
}

/**
 * Keeps a session with its locks: when it is lost, `connect` is called again, after 0.05 to 0.25 s, until it succeeds or
 * throws {@link SessionOwnershipLost}. Passes on what the first `connect` throws.
 */
export async function keepSession(connect: () => Promise<Session>, options: KeptSessionOptions): Promise<KeptSession> {
  let session = await connect()
  let released = false

  async function regain(): Promise<void> {
    if (released) return
    options.log('the connection that holds our locks in the database is lost; connecting again')
    let said = ''
    for (let failures = 0; !released; failures += 1) {
      try {
        session = await connect()
        if (released) await session.close()
        else session.onLost(() => void regain())
        options.log('connected to the database again, our locks are held')
        return
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error)
        if (error instanceof SessionOwnershipLost) return options.onLost(message)
        // Said once for each cause: an outage of hours must not fill a disk.
        if (message !== said) options.log(`the database is still away: ${message}`)
        said = message
        await sleep(options.clock, doubledMs(REGAIN_BACKOFF_FIRST_MS, REGAIN_BACKOFF_LIMIT_MS, failures))
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
