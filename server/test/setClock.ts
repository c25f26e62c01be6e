import { systemClock } from '../src/infra/clock.ts'
import type { Clock } from '../src/lib/time.ts'

/**
 * A clock whose date and time stand where a test sets them, while timers and durations are real: for what depends on the
 * time of day, beside a real database whose connections must not seem to stall.
 */
export class SetClock implements Clock {
  private epochMs: number

  constructor(epochMs: number) {
    this.epochMs = epochMs
  }

  now(): number {
    return this.epochMs
  }

  monotonicMs(): number {
    return systemClock.monotonicMs()
  }

  after(delayMs: number, callback: () => void): () => void {
    return systemClock.after(delayMs, callback)
  }

  set(epochMs: number): void {
    this.epochMs = epochMs
  }
}
