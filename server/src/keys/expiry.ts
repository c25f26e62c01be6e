import { refusal } from '../kernel/errors.ts'
import { parseInstant } from '../kernel/instant.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import { toTimestamp } from '../kernel/time.ts'

/** PostgreSQL and JavaScript both know instants up to here; a later one is a slip of the pen. */
const LATEST_MS = Date.UTC(9999, 11, 31)

/**
 * Reads when a key expires: a time from now (`30d`, `12h`, `90m`, `2w`) or an ISO date or date-time (a bare date is its
 * first instant in UTC). Gives milliseconds since the epoch; refuses (`validation_failed`) anything else, and the past.
 */
export function parseExpiry(text: string, nowMs: number): Result<number> {
  const expiresAtMs = parseInstant(text, nowMs)
  if (expiresAtMs === null) {
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

function refusedExpiry(message: string): Result<number> {
  return refused(refusal('validation_failed', message, { param: 'expires' }))
}
