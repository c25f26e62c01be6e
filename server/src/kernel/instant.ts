import { DAY_MS, HOUR_MS, MINUTE_MS, toTimestamp } from './time.ts'

/** Up to here the database and the wire both can write an instant: as long as years have four digits. */
export const LATEST_MS = Date.UTC(9999, 0)

const UNIT_MS: Readonly<Record<string, number>> = { m: MINUTE_MS, h: HOUR_MS, d: DAY_MS, w: 7 * DAY_MS }
const DURATION = /^([1-9][0-9]{0,6})([mhdw])$/
/** A date, or a date with a time and its zone: without the zone the instant would depend on the machine. */
const ISO_DATE = /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/

/**
 * Reads an instant as people type it: a time from now (`30d`, `12h`, `90m`, `2w`) or an ISO date or date-time (a bare date
 * is its first instant in UTC). Milliseconds since the epoch; null for anything else.
 */
export function parseInstant(text: string, nowMs: number): number | null {
  return readDuration(text, nowMs) ?? readIsoDate(text)
}

function readDuration(text: string, nowMs: number): number | null {
  const [, count, unit] = DURATION.exec(text) ?? []
  const unitMs = UNIT_MS[unit ?? '']
  return count === undefined || unitMs === undefined ? null : nowMs + Number(count) * unitMs
}

function readIsoDate(text: string): number | null {
  const date = ISO_DATE.exec(text)?.[1]
  if (date === undefined) return null
  const instantMs = Date.parse(text)
  // Date.parse takes the 30th of February for the 1st of March.
  const dateMs = Date.parse(`${date}T00:00:00Z`)
  return Number.isNaN(dateMs) || Number.isNaN(instantMs) || toTimestamp(dateMs).slice(0, 10) !== date ? null : instantMs
}
