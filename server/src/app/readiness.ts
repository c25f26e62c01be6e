import { areDescriptorsShort } from '../infra/descriptors.ts'
import { readClock } from '../infra/postgres/clock.ts'
import type { Database } from '../infra/postgres/database.ts'
import { SECOND_MS, type Timers, within } from '../lib/time.ts'

/** A question about readiness is answered in time, even when the database has stopped. */
const ANSWER_LATEST_MS = 2 * SECOND_MS

export interface ReadinessDependencies {
  readonly database: Database
  readonly clock: Timers
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

async function ofDatabase(database: Database, clock: Timers): Promise<readonly string[]> {
  try {
    // Any question would do.
    return (await within(clock, ANSWER_LATEST_MS, readClock(database), null)) === null ? [SILENT] : []
  } catch {
    return [SILENT]
  }
}

/** Returns why the time can't be relied on; null: it can. */
export type ClockTrouble = () => string | null

/** Returns the reason that the clock gives why calls can't be served now (E20): a list of one or none. */
export function clockReasons(trouble: ClockTrouble = () => null): readonly string[] {
  const reason = trouble()
  return reason === null ? [] : [reason]
}
