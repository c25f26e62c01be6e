import { arrayLiteral, type Queryable } from '../../io/postgres/database.ts'
import { toTimestamp } from '../../kernel/time.ts'
import { NEW_ACCOUNT_CAP_MICROCENTS } from '../gates.ts'
import type { Refilled } from '../wallet.ts'
import { deleteEmptyAllotments, listOfSlot, refillRows } from './store.ts'
import { windowsAt } from './windows.ts'

/** What a process wants of an account. Micro-cents. */
export interface Want {
  /** What new calls need in all. */
  readonly launch: bigint
  /** What the least of them needs: less than that is not worth having while others may use it. */
  readonly least: bigint
  /** What running calls need to go on; where the customer's caps do not bind those, it is granted beyond the caps. */
  readonly extension: bigint
  /** Given back of what was granted; null: this is no recall, and more than what is needed may be granted. */
  readonly giveBack: bigint | null
}

/**
 * Folds what this slot has posted into the accounts and asks for more. Call it only while no batch of this slot's
 * charges is under way. Organizations without an account are left out of the answer. Whose balance falls below
 * `lowBalanceMicrocents` is noted to be told; 0: nobody is.
 * `takenAtMs` is the caller's taking of the slot: where another process has taken it since, nothing is done and the answer
 * is empty; null: not looked at.
 */
export async function refillAllotments(
  db: Queryable,
  slot: number,
  wants: ReadonlyMap<string, Want>,
  nowMs: number,
  lowBalanceMicrocents = 0n,
  takenAtMs: number | null = null,
): Promise<Refilled[]> {
  const ids = [...wants.keys()].sort()
  const column = (pick: (want: Want) => bigint | null) =>
    arrayLiteral(
      ids.map((id) => {
        const want = wants.get(id)
        return want === undefined ? 0n : pick(want)
      }),
    )
  const rows = await refillRows(
    db,
    slot,
    {
      organizations: arrayLiteral(ids),
      launches: column((want) => want.launch),
      leasts: column((want) => want.least),
      extensions: column((want) => want.extension),
      givesBack: column((want) => want.giveBack),
    },
    windowsAt(nowMs),
    NEW_ACCOUNT_CAP_MICROCENTS,
    lowBalanceMicrocents,
    takenAtMs === null ? null : toTimestamp(takenAtMs),
  )
  return rows.map((row) => ({
    organizationId: row.organization_id,
    grantedMicrocents: row.granted,
    elsewhereMicrocents: row.elsewhere,
    rooms: {
      balance: row.room_balance,
      daily: row.room_daily,
      monthly: row.room_monthly,
      newAccount: row.room_new_account,
    },
    stopped: row.stopped,
    stopsRunning: row.stops_running,
    dayStartMs: row.day_start.getTime(),
    passesNotice: row.passes_notice,
    noticed: row.noticed,
  }))
}

/** Accounts folded in one statement; each stays locked until its transaction ends. */
const FOLD_ACCOUNTS = 500

/** More than any account has: all that a slot was granted. */
const ALL: Want = { launch: 0n, least: 0n, extension: 0n, giveBack: 1n << 62n }

/**
 * Folds what a dead slot left behind into the accounts: what it posted is subtracted, what it was granted is free again.
 * The caller holds the slot's lock. True when there may be more of it: call again, in another transaction.
 */
export async function foldSlot(
  db: Queryable,
  slot: number,
  nowMs: number,
  lowBalanceMicrocents = 0n,
  takenAtMs: number | null = null,
): Promise<boolean> {
  const ids = await listOfSlot(db, slot, FOLD_ACCOUNTS)
  if (ids.length === 0) return false
  await refillAllotments(db, slot, new Map(ids.map((id) => [id, ALL])), nowMs, lowBalanceMicrocents, takenAtMs)
  await deleteEmptyAllotments(db, slot, arrayLiteral(ids))
  return ids.length === FOLD_ACCOUNTS
}
