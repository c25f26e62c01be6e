/**
 * The clock of a process: the database's, counted on between two answers by the process's monotonic clock (E20). All processes
 * of an installation so share one date, and the wall clock of a machine decides nothing.
 */

import type { Log } from '../lib/log.ts'
import { type Clock, MINUTE_MS, SECOND_MS, sleep, type Timers, within } from '../lib/time.ts'

/** From one answer to the next question. With the longest round trip it stays below the 10 s of E20. */
const ASK_MS = 5 * SECOND_MS
/** The same while an answer is doubted, and at the start: a jump that is over must not keep calls out for longer. */
const ASK_AGAIN_MS = SECOND_MS
/** The instant of an answer is uncertain by half its round trip. With a longer round trip the answer is too uncertain to use. */
const ROUND_TRIP_MOST_MS = SECOND_MS
/** No machine's monotonic clock drifts so far between two answers: beyond it, the database's clock was set or this process slept. */
const APART_MOST_MS = 2 * SECOND_MS
/** A clock that was set by mistake is mostly set back sooner. */
const HELD_MS = MINUTE_MS
/** With a longer silence between two answers nobody knows whether a jump has held: its minute begins anew. */
const SILENCE_MOST_MS = 10 * SECOND_MS
/** An answer has whole milliseconds. */
const RESOLUTION_MS = 1
/** A database that never answers within a second could not serve calls either. */
const STARTING_TRIES = 30

export interface DatabaseClock extends Clock {
  /** Returns why no call may be admitted now, a line for readiness; null while the database's clock agrees with what was counted. */
  trouble(): string | null
  /** Ends the questions. The clock counts on. */
  close(): void
}

export interface DatabaseClockOptions {
  /** Reads the database's clock, in milliseconds since the epoch. */
  readonly read: () => Promise<number>
  readonly timers: Timers
  readonly log: Pick<Log, 'info' | 'warn'>
}

/** One answer: the database's clock as milliseconds ahead of the monotonic clock, and by how much that may be wrong. */
interface Answer {
  readonly offsetMs: number
  readonly errorMs: number
}

/** Opens the clock with a first answer, which is followed as it is. Rejects if the database can't be asked. */
export async function openDatabaseClock(options: DatabaseClockOptions): Promise<DatabaseClock> {
  const { timers } = options
  for (let tries = 1; ; tries += 1) {
    const first = await ask(options)
    if (first !== null) return new CountedClock(options, first.offsetMs)
    if (tries >= STARTING_TRIES) {
      throw new Error(
        `the database's clock can't be read: ${STARTING_TRIES} answers in a row took longer than a second; ` +
          'look at the load of the database and at the network in between',
      )
    }
    await sleep(timers, ASK_AGAIN_MS)
  }
}

/** Asks the database once. Null: the answer took too long. */
async function ask({ read, timers }: DatabaseClockOptions): Promise<Answer | null> {
  const askedMs = timers.monotonicMs()
  const readMs = await within(timers, ROUND_TRIP_MOST_MS, read(), null)
  const tookMs = timers.monotonicMs() - askedMs
  if (readMs === null || tookMs > ROUND_TRIP_MOST_MS) return null
  return { offsetMs: readMs - (askedMs + tookMs / 2), errorMs: tookMs / 2 + RESOLUTION_MS }
}

class CountedClock implements DatabaseClock {
  private readonly options: DatabaseClockOptions
  /** The database's clock is so many milliseconds ahead of the monotonic clock. */
  private offsetMs: number
  /** An offset far from that, since when all answers agree with it, and when the last one came, on the monotonic clock. */
  private doubted: { readonly offsetMs: number; readonly sinceMs: number; readonly heardMs: number } | null = null
  private cancel = () => {}
  private isClosed = false

  constructor(options: DatabaseClockOptions, offsetMs: number) {
    this.options = options
    this.offsetMs = offsetMs
    this.arm()
  }

  now(): number {
    return Math.floor(this.monotonicMs() + this.offsetMs)
  }

  monotonicMs(): number {
    return this.options.timers.monotonicMs()
  }

  after(delayMs: number, callback: () => void): () => void {
    return this.options.timers.after(delayMs, callback)
  }

  trouble(): string | null {
    if (this.doubted === null) return null
    const apart = words(this.doubted.offsetMs - this.offsetMs)
    return `the database’s clock is ${apart} what this process counted; it is followed once that has held for a minute`
  }

  close(): void {
    this.isClosed = true
    this.cancel()
  }

  private arm(): void {
    if (this.isClosed) return
    this.cancel = this.options.timers.after(this.doubted === null ? ASK_MS : ASK_AGAIN_MS, () => void this.look())
  }

  private async look(): Promise<void> {
    // The code that needs the database reports that it is away. The clock counts on.
    const answer = await ask(this.options).catch(() => null)
    if (answer !== null) this.hear(answer)
    this.arm()
  }

  private hear({ offsetMs, errorMs }: Answer): void {
    const { log } = this.options
    const apartMs = offsetMs - this.offsetMs
    if (Math.abs(apartMs) <= APART_MOST_MS) {
      if (this.doubted !== null)
        log.info({}, "the database's clock agrees again with what was counted; calls are admitted")
      this.doubted = null
      // A difference within the error of the answer corrects nothing: the clock would go to and fro.
      if (Math.abs(apartMs) > errorMs) this.offsetMs = offsetMs
      return
    }
    const nowMs = this.monotonicMs()
    if (this.doubted === null || Math.abs(offsetMs - this.doubted.offsetMs) > APART_MOST_MS) {
      this.doubted = { offsetMs, sinceMs: nowMs, heardMs: nowMs }
      const message = `the database's clock is ${words(apartMs)} what was counted; no call is admitted until that has held for a minute or is over`
      log.warn({ apartMs: Math.round(apartMs) }, message)
      return
    }
    const { doubted } = this
    const sinceMs = nowMs - doubted.heardMs > SILENCE_MOST_MS ? nowMs : doubted.sinceMs
    this.doubted = { ...doubted, sinceMs, heardMs: nowMs }
    if (nowMs - sinceMs < HELD_MS) return
    this.offsetMs = offsetMs
    this.doubted = null
    log.warn(
      { apartMs: Math.round(apartMs) },
      "the database's clock is followed, a minute after it was set; calls are admitted",
    )
  }
}

/** Such as `7200.0 s ahead of`. */
function words(apartMs: number): string {
  return `${(Math.abs(apartMs) / SECOND_MS).toFixed(1)} s ${apartMs > 0 ? 'ahead of' : 'behind'}`
}
