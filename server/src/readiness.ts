import { readClock } from './io/postgres/clock.ts'
import type { Database } from './io/postgres/database.ts'
import { type Clock, SECOND_MS } from './kernel/time.ts'

/** A clock further from the database's than this would put charges into the wrong windows. */
const CLOCK_TOLERANCE_MS = 2 * SECOND_MS

export interface ReadinessDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly isAdmitting: () => boolean
  readonly ownsSlot: () => boolean
  readonly oldestUnpostedMs: () => number
}

/** Whether calls can be served now, and what stands in the way if not: one line for each. */
export async function checkReadiness(dependencies: ReadinessDependencies): Promise<readonly string[]> {
  const { database, clock, isAdmitting, ownsSlot, oldestUnpostedMs } = dependencies
  const reasons: string[] = []
  if (!isAdmitting()) reasons.push('the server is stopping')
  if (!ownsSlot()) reasons.push('the connection that holds this process’s slot is lost')
  if (oldestUnpostedMs() > CLOCK_TOLERANCE_MS) reasons.push('charges are not being committed')
  try {
    const apartMs = Math.abs((await readClock(database)) - clock.now())
    if (apartMs > CLOCK_TOLERANCE_MS) {
      reasons.push(`this machine’s clock is ${Math.round(apartMs)} ms from the database’s: set both by NTP`)
    }
  } catch {
    reasons.push('the database does not answer')
  }
  return reasons
}
