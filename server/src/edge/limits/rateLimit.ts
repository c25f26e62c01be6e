import type { Clock } from '../../kernel/time.ts'
import { createRecent } from '../../keys/recent.ts'
import { intervalMicros, type RateLimit, type Standing, standingOf, takeToken } from './bucket.ts'
import { type Answer, type Operation, rateOperation } from './script.ts'

/** What the limit says of one request. */
export interface RateVerdict {
  readonly admitted: boolean
  readonly limit: RateLimit
  /** Null while the shared store is away: nothing is known of the bucket then, and the request is let through. */
  readonly standing: Standing | null
}

/** Takes a token of a key's bucket (K3). Answers at once where it can: in one process, and while the store is away. */
export interface RateLimiter {
  take(keyId: string, limit: RateLimit): RateVerdict | Promise<RateVerdict>
}

/** Where several processes keep their limits. */
export interface SharedLimits {
  /** Null, at once or after a short deadline, while the store is away. */
  run(operation: Operation): Promise<Answer | null> | null
}

/** Far more keys than send within the time that a bucket takes to fill; who is forgotten begins with a full one. */
const BUCKETS = 100_000

/** Buckets in the memory of this process. */
export function createRateLimiter(clock: Clock): RateLimiter {
  const buckets = createRecent<{ fullAtMicros: number }>(BUCKETS)
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
      return { admitted, limit, standing: standingOf(limit, fullAtMicros, nowMicros) }
    },
  }
}

/** Buckets that all processes share. `onSkipped` counts requests that were let through because the store is away. */
export function createSharedRateLimiter(shared: SharedLimits, onSkipped: () => void): RateLimiter {
  const verdictOf = (limit: RateLimit, answer: Answer | null): RateVerdict => {
    if (answer === null) {
      onSkipped()
      return { admitted: true, limit, standing: null }
    }
    const [admitted = 1, fullAtMicros = 0, nowMicros = 0] = answer
    return { admitted: admitted === 1, limit, standing: standingOf(limit, fullAtMicros, nowMicros) }
  }
  return {
    take(keyId, limit) {
      const asked = shared.run(rateOperation(keyId, intervalMicros(limit), limit.burst))
      return asked === null ? verdictOf(limit, null) : asked.then((answer) => verdictOf(limit, answer))
    },
  }
}
