import { HOUR_MS, MINUTE_MS, toTimestamp, utcDay } from '../../../lib/time.ts'

/**
 * The clocks of processes follow the database's by less, as SQL. A day or an instant that is later than this is of a false clock: no process
 * may be in it (E20).
 */
export const CLOCKS_APART = `interval '5 seconds'`

/** The windows that gates look at, all UTC, for an instant. */
export interface Windows {
  readonly at: string
  /** `YYYY-MM-DD` */
  readonly day: string
  /** The first day of the month. */
  readonly month: string
  /** Minutes that begin before this have left the last 60 minutes wholly. */
  readonly windowFrom: string
}

export function windowsAt(epochMs: number): Windows {
  const day = utcDay(epochMs)
  return {
    at: toTimestamp(epochMs),
    day,
    month: `${day.slice(0, 7)}-01`,
    windowFrom: toTimestamp(Math.floor(epochMs / MINUTE_MS) * MINUTE_MS - HOUR_MS),
  }
}
