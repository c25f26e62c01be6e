import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, toTimestamp, WEEK_MS } from './time.ts'

/**
 * From here on instants are refused where a period begins: the database and the wire write years of four digits, and the end of
 * the period must be one too.
 */
export const LATEST_MS = Date.UTC(9999, 0)

/** Returns whether a value, such as a field of a cursor, is an instant from 1970 on and before {@link LATEST_MS}. */
export function isInstant(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value < LATEST_MS
}

const UNIT_MS: Readonly<Record<string, number>> = { m: MINUTE_MS, h: HOUR_MS, d: DAY_MS, w: WEEK_MS }
const DURATION = /^([1-9][0-9]{0,6})([mhdw])$/
const DATE = /^\d{4}-\d{2}-\d{2}$/
/** RFC 3339, where the seconds may be left out. Without the zone the instant would depend on the machine. */
const TIMESTAMP =
  /^(\d{4}-\d{2}-\d{2})[Tt]((?:[01]\d|2[0-3]):[0-5]\d)(?::([0-5]\d|60)(\.\d{1,32})?)?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/

/**
 * Reads an instant as people type it: a time from now (`30d`, `12h`, `90m`, `2w`) or an ISO date or date-time (a bare date
 * is its first instant in UTC). Milliseconds since the epoch; null for anything else.
 */
export function parseInstant(text: string, nowMs: number): number | null {
  return readDuration(text, nowMs) ?? (DATE.test(text) ? parseTimestamp(`${text}T00:00:00Z`) : parseTimestamp(text))
}

function readDuration(text: string, nowMs: number): number | null {
  const [, count, unit] = DURATION.exec(text) ?? []
  const unitMs = UNIT_MS[unit ?? '']
  return count === undefined || unitMs === undefined ? null : nowMs + Number(count) * unitMs
}

/**
 * Reads an RFC 3339 timestamp, `t` and `z` in lower case too: milliseconds since the epoch, finer fractions cut off; null for
 * anything else. A leap second (`:60`, only at the end of a UTC month) is the instant one second after `:59`.
 */
export function parseTimestamp(text: string): number | null {
  const [, date, time, second = '00', fraction = '', zone] = TIMESTAMP.exec(text) ?? []
  if (date === undefined || zone === undefined || !isDate(date)) return null
  const isLeap = second === '60'
  const milliseconds = fraction.slice(0, 4)
  const instantMs = Date.parse(`${date}T${time}:${isLeap ? '59' : second}${milliseconds}${zone.toUpperCase()}`)
  if (Number.isNaN(instantMs)) return null
  if (!isLeap) return instantMs
  const nextMs = instantMs + SECOND_MS
  return toTimestamp(nextMs).slice(8, 19) === '01T00:00:00' ? nextMs : null
}

/** Date.parse takes the 30th of February for the 1st of March. */
function isDate(date: string): boolean {
  const instantMs = Date.parse(`${date}T00:00:00Z`)
  return !Number.isNaN(instantMs) && toTimestamp(instantMs).slice(0, 10) === date
}
