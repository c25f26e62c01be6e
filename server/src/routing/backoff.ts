import { doubledMs } from '../lib/backoff.ts'
import { SECOND_MS } from '../lib/time.ts'

const FIRST_MS = 250
const MOST_MS = 5 * SECOND_MS

/**
 * Returns how long to wait before targets are asked again, `round` times after the first: doubled each time, and
 * between half and all of that, so that calls that failed together do not come back together. At least what a
 * provider asked for.
 */
export function backoffMs(round: number, retryAfterSeconds: number, random: number): number {
  const wholeMs = doubledMs(FIRST_MS, MOST_MS, round - 1)
  return Math.max(wholeMs * (0.5 + random / 2), retryAfterSeconds * SECOND_MS)
}
