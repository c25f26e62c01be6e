/**
 * A bucket of tokens as one number: the instant at which it will be full again (GCRA, the generic cell rate algorithm).
 * Everything is a whole number of microseconds, so that sums are exact and `script.ts` computes the same in Redis.
 */

/** How many requests a key may send. */
export interface RateLimit {
  /** Tokens that come back in a second; 1 to 10,000. */
  readonly perSecond: number
  /** Tokens of a full bucket: what may be sent at once. */
  readonly burst: number
}

/** The result of taking a token for one request. */
export interface Taken {
  readonly admitted: boolean
  /** When the bucket is full again, in microseconds of the clock that `nowMicros` came from. */
  readonly fullAtMicros: number
}

/** The level of a bucket, as the headers of an answer show it. */
export interface BucketLevel {
  /** Whole tokens that are left. */
  readonly remaining: number
  /** Seconds until the bucket is full, rounded up. */
  readonly resetSeconds: number
  /** Seconds until there is a token, rounded up, at least 1. */
  readonly retryAfterSeconds: number
}

const SECOND_MICROS = 1_000_000

/** The time in which one token comes back; rounded down, so that a whole second brings all of its tokens. */
export function intervalMicros({ perSecond }: RateLimit): number {
  return Math.floor(SECOND_MICROS / perSecond)
}

/**
 * Takes a token where there is one. `fullAtMicros` is what was kept of the bucket; 0 of one that is not known, which is
 * full. A bucket that would be emptier than empty, after its limit was lowered or a clock set back, counts as empty.
 */
export function takeToken(limit: RateLimit, fullAtMicros: number, nowMicros: number): Taken {
  const interval = intervalMicros(limit)
  const capacity = interval * limit.burst
  const from = Math.min(Math.max(fullAtMicros, nowMicros), nowMicros + capacity)
  const admitted = from + interval - nowMicros <= capacity
  return { admitted, fullAtMicros: admitted ? from + interval : from }
}

/** Returns the level of a bucket that is full again at `fullAtMicros`, at the instant `nowMicros`. */
export function bucketLevelOf(limit: RateLimit, fullAtMicros: number, nowMicros: number): BucketLevel {
  const interval = intervalMicros(limit)
  const capacity = interval * limit.burst
  const missing = Math.max(0, fullAtMicros - nowMicros)
  return {
    remaining: Math.max(0, Math.floor((capacity - missing) / interval)),
    resetSeconds: Math.ceil(missing / SECOND_MICROS),
    retryAfterSeconds: Math.max(1, Math.ceil((missing + interval - capacity) / SECOND_MICROS)),
  }
}
