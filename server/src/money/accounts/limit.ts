import type { Queryable } from '../../io/postgres/database.ts'
import type { Enforcement } from '../gates.ts'
import { recallAllotments } from './recall.ts'
import { updateLimit } from './store.ts'

export interface LimitChange {
  /** More than 0. */
  readonly monthlyMicrocents: bigint
  /** Undefined leaves it, 0 clears it. */
  readonly dailyMicrocents: bigint | undefined
  readonly enforcement: Enforcement | undefined
  /** Undefined leaves it, null means never. */
  readonly autoTerminateHours: number | null | undefined
}

/**
 * Sets an organization's spending limit and asks every process to come into line with it. False where the organization
 * never had an account. Rejects when the processes could not be told: the limit is set then, and setting it again is safe.
 */
export async function setLimit(database: Queryable, organizationId: string, change: LimitChange): Promise<boolean> {
  const done = await updateLimit(database, organizationId, {
    monthly: change.monthlyMicrocents,
    daily: change.dailyMicrocents ?? null,
    enforcement: change.enforcement ?? null,
    setsHours: change.autoTerminateHours !== undefined,
    hours: change.autoTerminateHours ?? null,
  })
  if (done) await recallAllotments(database, organizationId)
  return done
}
