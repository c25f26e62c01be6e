import type { Clock } from '../src/lib/time.ts'

interface Timer {
  readonly dueMs: number
  readonly callback: () => void
}

/** A clock that stands still until a test turns it. Timers run in the order they are due. */
export class TurnedClock implements Clock {
  private readonly epochMs: number
  private elapsedMs = 0
  private readonly timers = new Set<Timer>()

  constructor(epochMs = Date.UTC(2026, 0, 1)) {
    this.epochMs = epochMs
  }

  now(): number {
    return this.epochMs + this.elapsedMs
  }

  monotonicMs(): number {
    return this.elapsedMs
  }

  after(delayMs: number, callback: () => void): () => void {
    const timer = { dueMs: this.elapsedMs + delayMs, callback }
    this.timers.add(timer)
    return () => this.timers.delete(timer)
  }

  /** Returns how many timers are set: a test that ends with some has found a leak. */
  get pending(): number {
    return this.timers.size
  }

  /** Turns the clock; everything that a timer sets off in this process has happened before the next one runs. */
  async turn(milliseconds: number): Promise<void> {
    const untilMs = this.elapsedMs + milliseconds
    await settled()
    for (;;) {
      let next: Timer | undefined
      for (const timer of this.timers) if (next === undefined || timer.dueMs < next.dueMs) next = timer
      if (next === undefined || next.dueMs > untilMs) break
      this.timers.delete(next)
      this.elapsedMs = Math.max(this.elapsedMs, next.dueMs)
      next.callback()
      await settled()
    }
    this.elapsedMs = untilMs
  }
}

/** Resolves when every promise that could settle without the outside world has. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** A step of {@link turnUntil}: so much of the clock passes for one query, at least, that `meanwhile` makes. */
const STEP_MS = 10

/** Turns a clock by small steps until something has happened; `meanwhile` lets what is outside of this process go on. */
export async function turnUntil(
  clock: TurnedClock,
  reached: () => boolean,
  meanwhile: () => Promise<unknown>,
): Promise<void> {
  while (!reached()) {
    await clock.turn(STEP_MS)
    await meanwhile()
  }
}

/** A turned clock that is also set, as a machine's is: no timer runs then, of which a gateway has one a minute. */
export class SettableClock extends TurnedClock {
  private aheadMs = 0

  override now(): number {
    return super.now() + this.aheadMs
  }

  set(atMs: number): void {
    this.aheadMs += atMs - this.now()
  }
}
