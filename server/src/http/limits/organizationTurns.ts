/**
 * Work that takes something scarce, such as the few connections for reads, is done in turns: little of each organization at a time.
 * Without turns one customer's work keeps all others waiting.
 */

import { type Refusal, refusal } from '../../lib/errors.ts'
import type { Timers } from '../../lib/time.ts'

/** Bounds of the work of one organization. */
export interface TurnBounds {
  /** Done at one time. */
  readonly underWayMost: number
  /** Waits for that. */
  readonly waitingMost: number
  /** None waits longer for its turn. */
  readonly waitMostMs: number
}

export interface OrganizationTurns {
  /**
   * Does `work` when it is this organization's turn: at once, or when earlier work has ended. Refuses with 429
   * `rate_limit_exceeded` where too much waits, and with 503 `upstream_unavailable` where the turn has not come in time. Work
   * whose client `isGone` meanwhile is not begun: its refusal is for nobody.
   */
  take<Answer>(
    organizationId: string,
    isGone: () => boolean,
    work: () => Answer | Promise<Answer>,
  ): Promise<Answer | Refusal>
}

/** The work of one organization: how much is under way, and what waits, first come first. */
interface Line {
  underWay: number
  readonly waiting: (() => void)[]
}

const TOO_MANY = refusal(
  'rate_limit_exceeded',
  'Too many requests of this organization wait for its earlier ones. Send fewer at once.',
  { retryAfterSeconds: 1 },
)

const TOO_LATE = refusal(
  'upstream_unavailable',
  'Earlier requests of this organization have not ended in time. Send fewer at once, or ask for less; then try again.',
  { retryAfterSeconds: 1 },
)

/** The turns of this process. One entry for each organization that has work under way. */
export function createOrganizationTurns(timers: Timers, bounds: TurnBounds): OrganizationTurns {
  const { underWayMost, waitingMost, waitMostMs } = bounds
  const lines = new Map<string, Line>()
  /** Resolves to true when earlier work has ended; to false when that takes too long. */
  const wait = ({ waiting }: Line): Promise<boolean> =>
    new Promise((resolve) => {
      const begin = () => {
        cancel()
        resolve(true)
      }
      const cancel = timers.after(waitMostMs, () => {
        waiting.splice(waiting.indexOf(begin), 1)
        resolve(false)
      })
      waiting.push(begin)
    })
  const end = (organizationId: string, line: Line): void => {
    const next = line.waiting.shift()
    // The next takes the turn over.
    if (next === undefined) line.underWay -= 1
    else next()
    if (line.underWay === 0) lines.delete(organizationId)
  }
  return {
    async take(organizationId, isGone, work) {
      const line = lines.get(organizationId) ?? { underWay: 0, waiting: [] }
      lines.set(organizationId, line)
      if (line.underWay < underWayMost) line.underWay += 1
      else if (line.waiting.length >= waitingMost) return TOO_MANY
      else if (!(await wait(line))) return TOO_LATE
      try {
        return isGone() ? TOO_MANY : await work()
      } finally {
        end(organizationId, line)
      }
    },
  }
}
