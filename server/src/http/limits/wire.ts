import { type Refusal, refusal } from '../../lib/errors.ts'
import type { RateVerdict } from './rateLimit.ts'

/**
 * Returns 429 `rate_limit_exceeded` (`rate_limited` in envelope A) for a request without a token, null for others. `whose` says
 * whose bucket it was.
 */
export function refuseRate(
  { admitted, limit, standing }: RateVerdict,
  whose: 'key' | 'session' | 'address',
): Refusal | null {
  if (admitted || standing === null) return null
  return refusal(
    'rate_limit_exceeded',
    `This ${whose} sends more requests than its limit allows: ${limit.perSecond} a second, and ${limit.burst} at once after a pause. ` +
      'Wait for the seconds in Retry-After, then send more slowly.',
    { retryAfterSeconds: standing.retryAfterSeconds },
  )
}

/**
 * Says on an answer how many requests a full bucket has, how many are left, and in how many seconds it is full again. While
 * the store that processes share is away, only the first is known.
 */
export function tellRate(headers: Headers, { limit, standing }: RateVerdict): void {
  headers.set('RateLimit-Limit', `${limit.burst}`)
  if (standing === null) return
  headers.set('RateLimit-Remaining', `${standing.remaining}`)
  headers.set('RateLimit-Reset', `${standing.resetSeconds}`)
}
