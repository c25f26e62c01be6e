import { arrayLiteral, type Queryable } from '../../../infra/postgres/database.ts'
import { toTimestamp } from '../../../lib/time.ts'
import { windowsAt } from '../accounts/windows.ts'
import { NEW_ACCOUNT_CAP_MICROCENTS } from '../gates.ts'
import type { Renewed, Want } from '../wants.ts'
import { renewShareRows } from './store.ts'

/** Told of an account whose day lay in the future of the database's clock, and was set back to the database's day (E20). */
export type OnDayMended = (organizationId: string) => void

/**
 * Folds the charges that this slot has posted into the accounts and asks for more. Call it only while no batch of
 * this slot's charges is under way. Organizations without an account are left out of the answer. An organization
 * whose balance falls below `lowBalanceMicrocents` gets a notice; 0: none does. `takenAtMs` is the caller's taking of
 * the slot: where another process has taken it since, nothing is done and the answer is empty; null: not looked at.
 * `onDayMended` is told of accounts whose day was a false one; its transaction may still be rolled back.
 */
export async function renewShares(
  db: Queryable,
  slot: number,
  wants: ReadonlyMap<string, Want>,
  nowMs: number,
  lowBalanceMicrocents = 0n,
  takenAtMs: number | null = null,
  onDayMended: OnDayMended = () => {},
): Promise<Renewed[]> {
  const ids = [...wants.keys()].sort()
  const column = (pick: (want: Want) => bigint | null) =>
    arrayLiteral(
      ids.map((id) => {
        const want = wants.get(id)
        return want === undefined ? 0n : pick(want)
      }),
    )
  const rows = await renewShareRows(db, {
    organizations: arrayLiteral(ids),
    admissions: column((want) => want.admission),
    leasts: column((want) => want.least),
    extensions: column((want) => want.extension),
    givesBack: column((want) => want.giveBack),
    slot,
    ...windowsAt(nowMs),
    newAccountCapMicrocents: NEW_ACCOUNT_CAP_MICROCENTS,
    lowBalanceMicrocents,
    takenAt: takenAtMs === null ? null : toTimestamp(takenAtMs),
  })
  for (const row of rows) if (row.is_day_mended) onDayMended(row.organization_id)
  return rows.map((row) => ({
    organizationId: row.organization_id,
    grantedMicrocents: row.granted,
    grantedToOthersMicrocents: row.elsewhere,
    headroom: {
      balance: row.headroom_balance,
      daily: row.headroom_daily,
      monthly: row.headroom_monthly,
      newAccount: row.headroom_new_account,
    },
    exhaustedLimit: row.exhausted_limit,
    stopsRunning: row.stops_running,
    dayStartMs: row.day_start.getTime(),
    reachesNotice: row.passes_notice,
    noticed: row.noticed,
  }))
}
