import type { Database, Participant } from '../../../infra/postgres/database.ts'
import { joinAll } from '../../../infra/postgres/joinAll.ts'
import type { Enforcement } from '../gates.ts'
import type { AccountFigures } from './figures.ts'
import { tellChange } from './reclaim.ts'
import { type LimitRow, updateLimit } from './store.ts'

export interface LimitChange {
  /** More than 0. */
  readonly monthlyMicrocents: bigint
  /** Undefined leaves it, 0 clears it. */
  readonly dailyMicrocents: bigint | undefined
  readonly enforcement: Enforcement | undefined
  /** Undefined leaves it, null means never. */
  readonly autoTerminateHours: number | null | undefined
}

/** The spending limit of an account; without a monthly one there is none. */
export type AccountLimit = Pick<
  AccountFigures,
  'monthlyLimitMicrocents' | 'dailyLimitMicrocents' | 'enforcement' | 'autoTerminateHours'
>

/** Work that joins the change of a limit, from what it was to what it is. */
export type JoinLimit = (before: AccountLimit, after: AccountLimit) => readonly Participant[]

/**
 * Sets an organization's spending limit and asks every process to come into line with it. False where the organization
 * never had an account. Rejects when the processes could not be told: the limit is set then, and setting it again is safe.
 */
export async function setLimit(
  database: Database,
  organizationId: string,
  change: LimitChange,
  join: JoinLimit = () => [],
): Promise<boolean> {
  const done = await database.transaction(async (tx) => {
    const changed = await updateLimit(tx, organizationId, {
      monthly: change.monthlyMicrocents,
      daily: change.dailyMicrocents ?? null,
      enforcement: change.enforcement ?? null,
      setsHours: change.autoTerminateHours !== undefined,
      hours: change.autoTerminateHours ?? null,
    })
    if (changed === null) return false
    await joinAll(tx, join(fromRow(changed.before), fromRow(changed.after)))
    return true
  }, organizationId)
  if (done) await tellChange(database, organizationId)
  return done
}

function fromRow({ monthly, daily, enforcement, hours }: LimitRow): AccountLimit {
  return {
    monthlyLimitMicrocents: monthly,
    dailyLimitMicrocents: daily,
    enforcement,
    autoTerminateHours: hours,
  }
}
