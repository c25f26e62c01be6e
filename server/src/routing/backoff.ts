import { SECOND_MS } from '../kernel/time.ts'

const FIRST_MS = 250
const MOST_MS = 5 * SECOND_MS

/**
 * How long to wait before targets are asked again, `round` times after the first: doubled each time, and between half and
 * all of that, so that calls that failed together do not come back together. At least what an upstream asked for.
 */
export function backoffMs(round: number, retryAfterSeconds: number, random: number): number {
  const wholeMs = Math.min(FIRST_MS * 2 ** (round - 1), MOST_MS)
  return Math.max(wholeMs * (0.5 + random / 2), retryAfterSeconds * SECOND_MS)
}
