import type { Timers } from '../../lib/time.ts'
import { SECOND_MS, sleep } from '../../lib/time.ts'
import { findHolder, type LockHolder } from './backends.ts'
import { SessionOwnershipLost } from './keptSession.ts'
import { LOCK_CLASS } from './locks.ts'
import type { Session } from './session.ts'

/**
 * A rival that sends a statement more, and is still there after this, lives. One that was killed a moment ago is gone within milliseconds,
 * also where its last statement comes late.
 */
const RIVAL_MS = 500
/** A connection with locks that sent nothing for so long is silent: its network fails, its host is gone, or its process is stopped. */
const SILENT_MS = 5 * SECOND_MS
/** By then PostgreSQL has closed the connection of a host that is gone. */
const SILENCE_PATIENCE_MS = 60 * SECOND_MS
const POLL_MS = 50
/** Once it is silent: a minute of looks must not burden the server. */
const SILENT_POLL_MS = 250

export interface OwnershipOptions {
  /** Which of the class. */
  readonly lockId: number
  readonly dataDir: string
  readonly clock: Timers
  readonly log: (message: string) => void
}

/**
 * Takes the data directory for this process. A dead connection of this process's own that still has it is ended. Somebody else's that
 * is silent is waited for, up to a minute, and never ended.
 *
 * @throws SessionOwnershipLost when another process has it.
 */
export async function takeOwnership(session: Session, options: OwnershipOptions): Promise<void> {
  const { lockId, clock } = options
  const rival = new Rival(options)
  while (!(await session.tryLock(LOCK_CLASS.ownership, lockId))) {
    const isOlder = await session.endOlder(LOCK_CLASS.ownership, lockId)
    const isSilent = !isOlder && rival.judge(await findHolder(session, LOCK_CLASS.ownership, lockId))
    await sleep(clock, isSilent ? SILENT_POLL_MS : POLL_MS)
  }
}

/** The process that has the data directory, as far as its connection shows. */
class Rival {
  private readonly options: OwnershipOptions
  private readonly sinceMs: number
  private first: LockHolder | null = null
  private last: LockHolder | null = null
  /** When it was first seen, and when the last statement that is known of it. */
  private firstSeenMs = 0
  private beatMs = 0
  private hasSaid = false

  constructor(options: OwnershipOptions) {
    this.options = options
    this.sinceMs = options.clock.monotonicMs()
  }

  /**
   * Takes up what was seen; returns whether it is silent. @throws SessionOwnershipLost once it is known to live, or was waited for
   * long enough.
   */
  judge(seen: LockHolder | null): boolean {
    const { clock, dataDir, log } = this.options
    const nowMs = clock.monotonicMs()
    this.note(seen, nowMs)
    if (this.isAlive(nowMs)) {
      throw new SessionOwnershipLost(`${this.sentence()}; stop it, or start this one with another --data-dir.`)
    }
    const silentMs = this.last === null ? 0 : nowMs - this.beatMs
    if (nowMs - this.sinceMs >= SILENCE_PATIENCE_MS) {
      throw new SessionOwnershipLost(
        `${this.sentence()}, and its connection to the database has been silent for ${inSeconds(silentMs)} s; ` +
          `stop it, or, where it is gone, end its connection (select pg_terminate_backend(${this.last?.pid ?? 'PID'}) in the database).`,
      )
    }
    if (silentMs < SILENT_MS) return false
    if (!this.hasSaid) {
      this.hasSaid = true
      log(
        `another server has the data directory ${dataDir}, and its connection to the database has been silent for ` +
          `${inSeconds(silentMs)} s; waiting for up to ${inSeconds(SILENCE_PATIENCE_MS)} s for it to end`,
      )
    }
    return true
  }

  private note(seen: LockHolder | null, nowMs: number): void {
    const isSame = seen !== null && seen.pid === this.first?.pid && seen.startedAt === this.first.startedAt
    if (!isSame) {
      this.first = seen
      this.firstSeenMs = nowMs
      this.beatMs = nowMs - (seen?.silentMs ?? 0)
    } else if (seen.beatAt !== this.last?.beatAt) this.beatMs = nowMs
    this.last = seen
  }

  /** It has sent a statement since it was first seen. Where the server hides that, it is taken for alive. */
  private isAlive(nowMs: number): boolean {
    if (this.first === null || nowMs - this.firstSeenMs < RIVAL_MS) return false
    return this.last?.beatAt === null || this.last?.beatAt !== this.first.beatAt
  }

  private sentence(): string {
    return `Another Tollgate server already serves from the data directory ${this.options.dataDir}`
  }
}

const inSeconds = (milliseconds: number) => Math.round(milliseconds / SECOND_MS)
