import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'

/** The first pause; each trial that fails doubles it. Short: a server that was started again is soon of use. */
const PAUSE_FIRST_MS = 5 * SECOND_MS
const PAUSE_MOST_MS = MINUTE_MS

export type BreakerState = 'closed' | 'open' | 'trial'

/**
 * The state of a target's failures. `closed`: the target is asked. `open`: it failed so often in a row that others
 * are asked before it, until its pause is over. `trial`: the pause is over and one call tries it; the outcome of that
 * call decides. Instants are milliseconds of the clock's monotonic scale.
 */
export class Breaker {
  /** Failures in a row that open it. */
  private readonly failuresMost: number
  private failures = 0
  private pauseMs = PAUSE_FIRST_MS
  private openUntilMs: number | null = null
  private isTried = false

  constructor(failuresMost: number) {
    this.failuresMost = failuresMost
  }

  get state(): BreakerState {
    if (this.openUntilMs === null) return 'closed'
    return this.isTried ? 'trial' : 'open'
  }

  /** Returns how long it should still be left alone; 0 where it may be asked. A trial under way is as good as a pause. */
  waitMs(nowMs: number): number {
    if (this.openUntilMs === null) return 0
    const leftMs = Math.max(0, this.openUntilMs - nowMs)
    return this.isTried ? Math.max(leftMs, this.pauseMs) : leftMs
  }

  /** It is asked now. True when this call is its trial. */
  asked(nowMs: number): boolean {
    if (this.openUntilMs === null || this.isTried || nowMs < this.openUntilMs) return false
    this.isTried = true
    return true
  }

  succeeded(): void {
    this.failures = 0
    this.pauseMs = PAUSE_FIRST_MS
    this.openUntilMs = null
    this.isTried = false
  }

  /** A call failed; `wasTrial` as {@link asked} said. One that began before the breaker opened changes nothing any more. */
  failed(nowMs: number, wasTrial: boolean): void {
    if (this.openUntilMs === null) {
      this.failures += 1
      if (this.failures >= this.failuresMost) this.openUntilMs = nowMs + this.pauseMs
      return
    }
    if (!wasTrial) return
    this.isTried = false
    this.pauseMs = Math.min(this.pauseMs * 2, PAUSE_MOST_MS)
    this.openUntilMs = nowMs + this.pauseMs
  }

  /** A call ended without saying anything of the target: its client left, or another one was quicker. */
  cancelled(wasTrial: boolean): void {
    if (wasTrial) this.isTried = false
  }
}
