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

/** The caller of a request: an admin of the organization, or not. */
export interface AskingCaller {
  readonly organizationId: string
  readonly isAdmin: boolean
}

const ASKED = { perSecond: ASKED_AN_HOUR / (HOUR_MS / SECOND_MS), burst: ASKED_AT_ONCE }

/** Work of one part has up to five requests to the payment provider, one after another. */
export const ASKING_TURNS = { underWayMost: 1, waitingMost: ASKED_AT_ONCE, waitMostMs: 20 * SECOND_MS }

export interface ProviderAsks {
  /**
   * Does work that asks the payment provider, in its turn. The admins of an organization have one part of turns and requests, and its other
   * callers have another: neither uses up the other's. Refuses with 429 beyond 100 at once and 300 an hour of a part, and as the turns do.
   * `refuseFirst` looks at the bounds of the work itself and throws `Refused` beyond them: then nobody is asked, and nothing of the part is
   * used. It runs in the turn, so that it sees everything that earlier requests of this process began.
   */
  take<Answer>(
    caller: AskingCaller,
    work: () => Answer | Promise<Answer>,
    refuseFirst?: () => Promise<void>,
  ): Promise<Answer | Refusal>
}

/** The parts of `http/limits/` that it is made of. */
export interface AsksDependencies {
  readonly limiter: BucketLimiter
  readonly turns: {
    take<Answer>(part: string, isGone: () => boolean, work: () => Answer | Promise<Answer>): Promise<Answer | Refusal>
  }
}

/** The bounds of this process. */
export function createProviderAsks({ limiter, turns }: AsksDependencies): ProviderAsks {
  return {
    take({ organizationId, isAdmin }, work, refuseFirst) {
      const part = `${isAdmin ? 'admins' : 'others'} of ${organizationId}`
      // Also for a client that has gone: it may have an Idempotency-Key, and come again for the answer.
      const isGone = () => false
      return turns.take(part, isGone, async () => {
        await refuseFirst?.()
        const { admitted, standing } = await limiter.take(part, ASKED)
        return admitted ? work() : tooMany(isAdmin, standing?.retryAfterSeconds ?? 1)
      })
    },
  }
}

function tooMany(isAdmin: boolean, retryAfterSeconds: number): Refusal {
  const callers = isAdmin ? 'admins of this organization' : 'callers of this organization who are no admins'
  return refusal(
    'rate_limited',
    `The ${callers} have asked the payment provider ${ASKED_AT_ONCE} times at once, or ${ASKED_AN_HOUR} times within an hour, the most that they may. Wait for the seconds in Retry-After.`,
    { retryAfterSeconds },
  )
}
