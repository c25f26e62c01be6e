import { systemClock } from '../src/infra/clock.ts'
import type { Clock } from '../src/lib/time.ts'

/** Durations and timers take so many times as long as on the machine. */
const SLOWER = 20

/**
 * A clock for a whole gateway on a machine that has other work too: durations and timers are those of a gateway that is twenty
 * times as fast, so that no deadline is over because the machine was busy. Its date goes on with the machine's, from any instant.
 */
export class SlowClock implements Clock {
  private readonly aheadMs: number
  private readonly sinceMs = systemClock.monotonicMs()
  private slower = SLOWER
  private hurriedAtMs = Number.POSITIVE_INFINITY

  constructor(epochMs: number) {
    this.aheadMs = epochMs - systemClock.now()
  }

  now(): number {
    return systemClock.now() + this.aheadMs
  }

  monotonicMs(): number {
    const nowMs = systemClock.monotonicMs()
    const slowMs = Math.min(nowMs, this.hurriedAtMs) - this.sinceMs
    return this.sinceMs + slowMs / SLOWER + Math.max(nowMs - this.hurriedAtMs, 0)
  }

  after(delayMs: number, callback: () => void): () => void {
    return systemClock.after(delayMs * this.slower, callback)
  }

  /** From now on it goes as fast as the machine's: a gateway waits for its work a while before it closes. */
  hurry(): void {
    this.slower = 1
    this.hurriedAtMs = systemClock.monotonicMs()
  }
}
