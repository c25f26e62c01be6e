import { arrayLiteral, type Queryable } from '../../../infra/postgres/database.ts'
import { toTimestamp } from '../../../lib/time.ts'
import { windowsAt } from '../accounts/windows.ts'
import { NEW_ACCOUNT_CAP_MICROCENTS } from '../gates.ts'
import type { Renewed, Want } from '../share.ts'
import { listOfSlot, renewShareRows } from './store.ts'

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

/** Accounts folded in one statement; each stays locked until its transaction ends. */
const FOLD_ACCOUNTS = 500

/** The parts of a fold that are left out mostly; `renewShares` says what they mean. */
export interface FoldOptions {
  readonly after?: string | null
  readonly lowBalanceMicrocents?: bigint
  readonly takenAtMs?: number | null
  readonly onDayMended?: OnDayMended
}

/** More than any account has: all that a slot was granted. */
const ALL: Want = { admission: 0n, least: 0n, extension: 0n, giveBack: 1n << 62n }

/**
 * Folds what a dead slot left behind into the accounts: what it posted is subtracted, what it was granted is free again.
 * The caller holds the slot's lock. `after`: the place to go on from; null: the beginning. Returns the place behind the accounts that
 * it has folded, where the next call, in another transaction, goes on; null: it has come to the end.
 */
export async function foldSlot(
  db: Queryable,
  slot: number,
  nowMs: number,
  { after = null, lowBalanceMicrocents = 0n, takenAtMs = null, onDayMended }: FoldOptions = {},
): Promise<string | null> {
  const ids = await listOfSlot(db, slot, FOLD_ACCOUNTS, after)
  if (ids.length === 0) return null
  await renewShares(db, slot, new Map(ids.map((id) => [id, ALL])), nowMs, lowBalanceMicrocents, takenAtMs, onDayMended)
  return ids.length === FOLD_ACCOUNTS ? (ids.at(-1) ?? null) : null
}
