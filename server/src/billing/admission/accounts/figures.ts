import type { Queryable } from '../../../infra/postgres/database.ts'
import type { Figures } from '../gates.ts'
import { selectFigures } from './store.ts'
import { windowsAt } from './windows.ts'

export interface AccountFigures extends Figures {
  /** After how many hours live instances end; null: never. */
  readonly autoTerminateHours: number | null
}

/**
 * Returns the money that an account has and has spent at an instant, exact to the last charge that was posted. Reads
 * only; null where the organization never had an account.
 */
export async function readFigures(
  db: Queryable,
  organizationId: string,
  nowMs: number,
): Promise<AccountFigures | null> {
  const row = await selectFigures(db, organizationId, windowsAt(nowMs))
  return row === null
    ? null
    : {
        balanceMicrocents: row.balance,
        sharesMicrocents: row.granted,
        heldMicrocents: row.held,
        instancesHeldMicrocents: row.instances_held,
        burnMicrocents: row.burn,
        daySpentMicrocents: row.day_spent,
        monthSpentMicrocents: row.month_spent,
        hourSpentMicrocents: row.hour_spent,
        isNew: row.is_new,
        dailyLimitMicrocents: row.daily_limit,
        monthlyLimitMicrocents: row.monthly_limit,
        enforcement: row.enforcement,
        autoTerminateHours: row.auto_terminate_hours,
      }
}
