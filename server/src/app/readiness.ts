import { areDescriptorsShort } from '../infra/descriptors.ts'
import { readClock } from '../infra/postgres/clock.ts'
import type { Database } from '../infra/postgres/database.ts'
import { type Clock, SECOND_MS, within } from '../lib/time.ts'

/** A clock further from the database's than this would put charges into the wrong windows. */
const CLOCK_TOLERANCE_MS = 2 * SECOND_MS

/** A question about readiness is answered in time, even when the database has stopped. */
const ANSWER_LATEST_MS = 2 * SECOND_MS

export interface ReadinessDependencies {
  readonly database: Database
  readonly clock: Clock
  /** Returns the reasons of the rooms why no call can be served now. */
  readonly reasons: () => readonly string[]
}

const SILENT = 'the database does not answer'

/** Returns the reasons why calls can't be served now, a line each: those of the rooms, and that of the database. */
export async function checkReadiness({ database, clock, reasons }: ReadinessDependencies): Promise<readonly string[]> {
  return [...reasons(), ...ofDescriptors(), ...(await ofDatabase(database, clock))]
}

/** Connections fail then in ways that say nothing of the cause, such as ECONNREFUSED. */
function ofDescriptors(): readonly string[] {
  if (!areDescriptorsShort()) return []
  return ['no file descriptors are left: raise the limit (ulimit -n, LimitNOFILE of systemd)']
}

async function ofDatabase(database: Database, clock: Clock): Promise<readonly string[]> {
  try {
    const read = await within(clock, ANSWER_LATEST_MS, readClock(database), null)
    if (read === null) return [SILENT]
    const apartMs = Math.abs(read - clock.now())
    if (apartMs <= CLOCK_TOLERANCE_MS) return []
    return [`this machine’s clock is ${Math.round(apartMs)} ms from the database’s: set both by NTP`]
  } catch {
    return [SILENT]
  }
}
