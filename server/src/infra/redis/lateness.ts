import type { Clock } from '../../lib/time.ts'
import { Patience } from './patience.ts'

/**
 * A store that has answered nothing for so long is given up, with its connection. Nobody waits for that: a late answer is
 * good for those who come after it, and giving up a store that only paused would leave keys without a limit for longer.
 */
const LOST_AFTER_MS = 250
/**
 * After a delay of this process itself an answer may be there that nobody has read yet. Timers go before what has come, so
 * that it is seen after one more.
 */
const SECOND_LOOK_MS = 1

/** Looks whether a store that was asked is as quick as it was, late, or away. */
export class Lateness {
  private readonly clock: Clock
  private readonly onLate: () => void
  private readonly onLost: (error: Error) => void
  private readonly patience = new Patience()
  private late = false
  private wasLookedAt = false
  private progressAtMs = 0
  private cancel: (() => void) | null = null

  /** `onLate` is called once until the next answer comes; `onLost` when none has come for 250 ms, and then no more. */
  constructor(clock: Clock, onLate: () => void, onLost: (error: Error) => void) {
    this.clock = clock
    this.onLate = onLate
    this.onLost = onLost
  }

  get isLate(): boolean {
    return this.late
  }

  /** It is asked, and owes no answer beside this one. */
  begin(): void {
    this.progress()
    this.watch(this.patience.limitMs)
  }

  /** It has answered, after so long. */
  note(roundTripMs: number): void {
    this.patience.note(roundTripMs)
    this.progress()
  }

  /** It owes no answer any more. */
  end(): void {
    this.cancel?.()
    this.cancel = null
    this.late = false
  }

  private progress(): void {
    this.progressAtMs = this.clock.monotonicMs()
    this.late = false
    this.wasLookedAt = false
  }

  private watch(delayMs: number): void {
    this.cancel?.()
    this.cancel = this.clock.after(delayMs, () => this.look())
  }

  private look(): void {
    const silentMs = this.clock.monotonicMs() - this.progressAtMs
    const { limitMs } = this.patience
    if (silentMs >= LOST_AFTER_MS) this.onLost(new Error(`no answer within ${LOST_AFTER_MS} ms`))
    else if (this.late) this.watch(LOST_AFTER_MS - silentMs)
    else if (silentMs < limitMs) this.watch(limitMs - silentMs)
    else if (this.wasLookedAt) {
      this.late = true
      this.onLate()
      this.watch(LOST_AFTER_MS - silentMs)
    } else {
      this.wasLookedAt = true
      this.watch(SECOND_LOOK_MS)
    }
  }
}
