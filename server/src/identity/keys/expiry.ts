import { refusal } from '../../lib/errors.ts'
import { parseInstant } from '../../lib/instant.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import { toTimestamp } from '../../lib/time.ts'

/** The last day of four digits, which people type for "never". No period begins at an expiry, so that it may be later than `LATEST_MS`. */
const LATEST_EXPIRY_MS = Date.UTC(9999, 11, 31)

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
  if (expiresAtMs > LATEST_EXPIRY_MS)
    return refusedExpiry(
      `The expiry "${text}" is too far in the future. For a key that never expires, leave the expiry out.`,
    )
  if (expiresAtMs <= nowMs)
    return refusedExpiry(`The expiry "${text}" is already past: it is ${toTimestamp(nowMs)} now.`)
  return ok(expiresAtMs)
}

function refusedExpiry(message: string): Result<number> {
  return refused(refusal('validation_failed', message, { param: 'expires' }))
}
