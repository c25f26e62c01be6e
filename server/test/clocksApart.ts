/** The clocks of a gateway's machine and of its database, which a test turns apart. */

import { systemClock } from '../src/infra/clock.ts'
import { openDatabaseClock } from '../src/infra/databaseClock.ts'
import type { Clock } from '../src/lib/time.ts'
import { SettableClock } from './clock.ts'

export interface ClocksApart {
  /** The gateway's: the database's, counted on. Its date stands still until {@link pass}; its timers and durations are real. */
  readonly clock: Clock
  readonly trouble: () => string | null
  /** The database's own. */
  readonly database: Pick<Clock, 'now'>
  /** The lines that the clock has logged. */
  readonly logs: readonly string[]
  /** Sets the wall clock of the gateway's machine so far ahead of the true time. */
  turnWall(aheadMs: number): void
  /** Sets the database's clock so far ahead of the true time. */
  turnDatabase(aheadMs: number): void
  /** Lets time pass, for both. */
  pass(milliseconds: number): Promise<void>
  close(): void
}

export async function openClocksApart(startMs: number): Promise<ClocksApart> {
  const wall = new SettableClock(startMs)
  const logs: string[] = []
  let databaseAheadMs = 0
  const trueMs = () => startMs + wall.monotonicMs()
  const database = { now: () => trueMs() + databaseAheadMs }
  const say = (_: unknown, message: string) => void logs.push(message)
  const counted = await openDatabaseClock({
    read: async () => database.now(),
    timers: wall,
    log: { info: say, warn: say },
  })
  const { monotonicMs, after } = systemClock
  return {
    clock: { now: () => counted.now(), monotonicMs, after },
    trouble: () => counted.trouble(),
    database,
    logs,
    turnWall: (aheadMs) => wall.set(trueMs() + aheadMs),
    turnDatabase(aheadMs) {
      databaseAheadMs = aheadMs
    },
    pass: (milliseconds) => wall.turn(milliseconds),
    close: () => counted.close(),
  }
}

/** Jumps of a clock that is set wrong, in milliseconds. */
export const CLOCK_JUMPS_MS = [-25 * 3_600_000, -2 * 3_600_000, 5_000, 20 * 3_600_000, 40 * 86_400_000] as const
