/** The memory of replays on their way. It comes out of that of all large answers; no organization may take much of it. */

import { addAmount } from '../lib/amountsByOwner.ts'
import type { ByteBudget } from '../lib/byteBudget.ts'

/** Replays leave at least half of the budget to answers that are being made. */
const REPLAYS_BYTES = 128 << 20
/** Replays of one organization leave the rest of that to others. */
const ORGANIZATION_BYTES = 16 << 20

export interface ReplayMemory {
  readonly takenBytes: number
  /** Takes memory for a replay; the result gives it back and may be called more than once. Null: there is none. */
  take(organizationId: string, bytes: number): (() => void) | null
}

/** One entry for each organization with a replay on its way. */
export function createReplayMemory(budget: ByteBudget): ReplayMemory {
  const organizations = new Map<string, number>()
  let taken = 0

  const add = (organizationId: string, bytes: number) => {
    taken += bytes
    addAmount(organizations, organizationId, bytes)
  }
  return {
    get takenBytes() {
      return taken
    },
    take(organizationId, bytes) {
      if (taken + bytes > REPLAYS_BYTES) return null
      if ((organizations.get(organizationId) ?? 0) + bytes > ORGANIZATION_BYTES) return null
      const reservation = budget.open(organizationId)
      if (!reservation.tryTake(bytes)) return null
      add(organizationId, bytes)
      let isGivenBack = false
      return () => {
        if (isGivenBack) return
        isGivenBack = true
        add(organizationId, -bytes)
        reservation.close()
      }
    },
  }
}
