import { refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, toTimestamp } from '../kernel/time.ts'

const UNIT_MS: Readonly<Record<string, number>> = { m: MINUTE_MS, h: HOUR_MS, d: DAY_MS, w: 7 * DAY_MS }
const DURATION = /^([1-9][0-9]{0,6})([mhdw])$/
/** A date, or a date with a time and its zone: without the zone the instant would depend on the machine. */
const ISO_DATE = /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/
/** PostgreSQL and JavaScript both know instants up to here; a later one is a slip of the pen. */
const LATEST_MS = Date.UTC(9999, 11, 31)

/**
 * Reads when a key expires: a time from now (`30d`, `12h`, `90m`, `2w`) or an ISO date or date-time (a bare date is its
 * first instant in UTC). Gives milliseconds since the epoch; refuses (`validation_failed`) anything else, and the past.
 */
export function parseExpiry(text: string, nowMs: number): Result<number> {
  const expiresAtMs = readDuration(text, nowMs) ?? readIsoDate(text)
  if (expiresAtMs === undefined) {
    return refusedExpiry(
      `The expiry "${text}" is not understood: use a time from now such as 30d or 12h, or an ISO date such as 2031-12-31 ` +
        'or 2031-12-31T18:00:00Z.',
    )
  }
  if (expiresAtMs > LATEST_MS) return refusedExpiry(`The expiry "${text}" is too far away: leave it out for never.`)
  if (expiresAtMs <= nowMs)
    return refusedExpiry(`The expiry "${text}" is already past: it is ${toTimestamp(nowMs)} now.`)
  return ok(expiresAtMs)
}

function readDuration(text: string, nowMs: number): number | undefined {
  const [, count, unit] = DURATION.exec(text) ?? []
  const unitMs = UNIT_MS[unit ?? '']
  return count === undefined || unitMs === undefined ? undefined : nowMs + Number(count) * unitMs
}

function readIsoDate(text: string): number | undefined {
  const date = ISO_DATE.exec(text)?.[1]
  if (date === undefined) return undefined
  const instantMs = Date.parse(text)
  // Date.parse takes the 30th of February for the 1st of March.
  const dateMs = Date.parse(`${date}T00:00:00Z`)
  return Number.isNaN(dateMs) || Number.isNaN(instantMs) || toTimestamp(dateMs).slice(0, 10) !== date
    ? undefined
    : instantMs
}

function refusedExpiry(message: string): Result<number> {
  return refused(refusal('validation_failed', message, { param: 'expires' }))
}
