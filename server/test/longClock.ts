import { systemClock } from '../src/infra/clock.ts'
import type { Clock } from '../src/lib/time.ts'

/** Timers from this length on are turned; shorter ones run by themselves. */
const LONG_MS = 5_000

interface Timer {
  readonly dueMs: number
  readonly callback: () => void
}

/**
 * A clock for a whole gateway: its date and time stand still until a test turns it, and so do long timers, such as
 * deadlines. Short ones are real, so that what polls goes on polling, and so are durations.
 */
export class LongClock implements Clock {
  private elapsedMs = 0
  private readonly epochMs: number
  private readonly timers = new Set<Timer>()

  constructor(epochMs: number) {
    this.epochMs = epochMs
  }

  now(): number {
    return this.epochMs + this.elapsedMs
  }

  monotonicMs(): number {
    return systemClock.monotonicMs() + this.elapsedMs
  }

  after(delayMs: number, callback: () => void): () => void {
    if (delayMs < LONG_MS) return systemClock.after(delayMs, callback)
    const timer = { dueMs: this.elapsedMs + delayMs, callback }
    this.timers.add(timer)
    return () => this.timers.delete(timer)
  }

  /** Turns it at once: each timer that is due by then runs, in the order in which they were, and none that it sets. */
  turn(milliseconds: number): void {
    this.elapsedMs += milliseconds
    const due = [...this.timers].filter(({ dueMs }) => dueMs <= this.elapsedMs).sort((a, b) => a.dueMs - b.dueMs)
    for (const timer of due) {
      // One that ran before may have cancelled it.
      if (this.timers.delete(timer)) timer.callback()
    }
  }
}
