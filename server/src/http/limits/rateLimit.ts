import { createRecent } from '../../lib/recent.ts'
import type { Clock } from '../../lib/time.ts'
import { type BucketLevel, bucketLevelOf, intervalMicros, type RateLimit, takeToken } from './bucket.ts'
import { rateOperation, type ScriptAnswer, type ScriptOperation } from './script.ts'

/** The decision of the rate limit on one request. */
export interface RateVerdict {
  readonly admitted: boolean
  readonly limit: RateLimit
  /** Null while the shared store is away: nothing is known of the bucket then, and the request is let through. */
  readonly standing: BucketLevel | null
}

/**
 * Takes a token of a bucket (K3): that of an API key, a session's member or a client's address. Answers at once where it can:
 * in one process, and while the store is away.
 */
export interface RateLimiter {
  take(keyId: string, limit: RateLimit): RateVerdict | Promise<RateVerdict>
}

/** Where several processes keep their limits. */
export interface SharedLimits {
  /** Null, at once or after a short deadline, while the store is away. */
  run(operation: ScriptOperation): Promise<ScriptAnswer | null> | null
}

/** Far more keys than send within the time that a bucket takes to fill. A key that is forgotten begins with a full bucket. */
const BUCKETS = 100_000

/** The rate of one address at routes without a key: more than a person's browser sends, and too little to be a burden. */
export const ADDRESS_RATE_LIMIT: RateLimit = { perSecond: 10, burst: 100 }

/** Buckets in the memory of this process, of at most `capacity` keys or addresses. */
export function createRateLimiter(clock: Clock, capacity = BUCKETS): RateLimiter {
  const buckets = createRecent<{ fullAtMicros: number }>(capacity)
  return {
    take(keyId, limit) {
      const nowMicros = Math.floor(clock.monotonicMs() * 1_000)
      let bucket = buckets.get(keyId)
      if (bucket === undefined) {
        bucket = { fullAtMicros: 0 }
        buckets.set(keyId, bucket)
      }
      const { admitted, fullAtMicros } = takeToken(limit, bucket.fullAtMicros, nowMicros)
      bucket.fullAtMicros = fullAtMicros
      return { admitted, limit, standing: bucketLevelOf(limit, fullAtMicros, nowMicros) }
    },
  }
}

/** Buckets that all processes share. `onSkipped` counts requests that were let through because the store is away. */
export function createSharedRateLimiter(shared: SharedLimits, onSkipped: () => void): RateLimiter {
  const verdictOf = (limit: RateLimit, answer: ScriptAnswer | null): RateVerdict => {
    if (answer === null) {
      onSkipped()
      return { admitted: true, limit, standing: null }
    }
    const [admitted = 1, fullAtMicros = 0, nowMicros = 0] = answer
    return { admitted: admitted === 1, limit, standing: bucketLevelOf(limit, fullAtMicros, nowMicros) }
  }
  return {
    take(keyId, limit) {
      const asked = shared.run(rateOperation(keyId, intervalMicros(limit), limit.burst))
      return asked === null ? verdictOf(limit, null) : asked.then((answer) => verdictOf(limit, answer))
    },
  }
}
