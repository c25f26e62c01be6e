import type { Clock } from './time.ts'

/**
 * One timer for a deadline that keeps moving. Moving the due time later costs nothing: the timer, when it fires too early, sets
 * itself again. So a stream of many events sets a timer once.
 */
export class Watchdog {
  private readonly clock: Clock
  private readonly onDue: () => void
  private dueMs = Number.POSITIVE_INFINITY
  private armedMs = Number.POSITIVE_INFINITY
  private cancelTimer: (() => void) | null = null

  /** `onDue` is called when the due time has come; it may set a new one. */
  constructor(clock: Clock, onDue: () => void) {
    this.clock = clock
    this.onDue = onDue
  }

  /** Sets the due time, on the clock's monotonic scale, in place of the one before. */
  due(atMs: number): void {
    this.dueMs = atMs
    if (atMs < this.armedMs) this.arm()
  }

  /** Ends it. */
  stop(): void {
    this.dueMs = Number.POSITIVE_INFINITY
    this.disarm()
  }

  private arm(): void {
    this.disarm()
    this.armedMs = this.dueMs
    this.cancelTimer = this.clock.after(Math.max(this.dueMs - this.clock.monotonicMs(), 0), this.fired)
  }

  private disarm(): void {
    this.cancelTimer?.()
    this.cancelTimer = null
    this.armedMs = Number.POSITIVE_INFINITY
  }

  private readonly fired = (): void => {
    this.disarm()
    if (this.dueMs === Number.POSITIVE_INFINITY) return
    // Timers may fire a fraction of a millisecond early; arming again then is harmless.
    if (this.clock.monotonicMs() < this.dueMs) this.arm()
    else {
      this.dueMs = Number.POSITIVE_INFINITY
      this.onDue()
    }
  }
}
