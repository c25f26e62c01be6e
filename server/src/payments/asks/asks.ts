/**
 * Bounds what an organization's callers have asked of the payment provider. Its limit of requests is one for the whole installation:
 * one customer who uses it up keeps all others from paying.
 */

import type { BucketLimiter } from '../../lib/bucketLimiter.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'
import { HOUR_MS, SECOND_MS } from '../../lib/time.ts'

/** As many as the hourly bounds of top-ups, checkouts and portals together leave, and more. */
const ASKED_AN_HOUR = 300
const ASKED_AT_ONCE = 100

const ASKED = { perSecond: ASKED_AN_HOUR / (HOUR_MS / SECOND_MS), burst: ASKED_AT_ONCE }

/** Work of one organization has up to five requests to the provider, one after another. */
export const ASKING_TURNS = { underWayMost: 1, waitingMost: ASKED_AT_ONCE, waitMostMs: 20 * SECOND_MS }

export interface ProviderAsks {
  /**
   * Does work that asks the payment provider, in its organization's turn. Refuses with 429 beyond 100 at once and 300 an hour, and as
   * the turns do.
   */
  take<Answer>(organizationId: string, work: () => Answer | Promise<Answer>): Promise<Answer | Refusal>
}

/** The parts of `http/limits/` that it is made of. */
export interface AsksDependencies {
  readonly limiter: BucketLimiter
  readonly turns: {
    take<Answer>(
      organizationId: string,
      isGone: () => boolean,
      work: () => Answer | Promise<Answer>,
    ): Promise<Answer | Refusal>
  }
}

/** The bounds of this process. */
export function createProviderAsks({ limiter, turns }: AsksDependencies): ProviderAsks {
  return {
    async take(organizationId, work) {
      const { admitted, standing } = await limiter.take(organizationId, ASKED)
      // Also for a client that has gone: it may have an Idempotency-Key, and come again for the answer.
      if (admitted) return turns.take(organizationId, () => false, work)
      return refusal(
        'rate_limited',
        `Requests of this organization have asked the payment provider ${ASKED_AT_ONCE} times at once, or ${ASKED_AN_HOUR} times within an hour, the most that they may. Wait for the seconds in Retry-After.`,
        { retryAfterSeconds: standing?.retryAfterSeconds ?? 1 },
      )
    },
  }
}
