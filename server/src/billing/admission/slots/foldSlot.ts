import type { Queryable } from '../../../infra/postgres/database.ts'
import { type OnDayMended, renewShares } from '../renewal/renew.ts'
import type { Want } from '../wants.ts'
import { listOfSlot } from './store.ts'

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

/** Folds what a dead slot has of one organization, as {@link foldSlot} does. */
export async function foldShare(
  db: Queryable,
  slot: number,
  organizationId: string,
  nowMs: number,
  options: Pick<FoldOptions, 'lowBalanceMicrocents' | 'onDayMended'> = {},
): Promise<void> {
  await giveBack(db, slot, [organizationId], nowMs, options)
}

/**
 * Folds what a dead slot left behind into the accounts: what it posted is subtracted, what it was granted is free again.
 * The caller holds the slot's lock. `after`: the place to go on from; null: the beginning. Returns the place behind the accounts that
 * it has folded, where the next call, in another transaction, goes on; null: it has come to the end.
 */
export async function foldSlot(
  db: Queryable,
  slot: number,
  nowMs: number,
  { after = null, ...options }: FoldOptions = {},
): Promise<string | null> {
  const ids = await listOfSlot(db, slot, FOLD_ACCOUNTS, after)
  if (ids.length === 0) return null
  await giveBack(db, slot, ids, nowMs, options)
  return ids.length === FOLD_ACCOUNTS ? (ids.at(-1) ?? null) : null
}

/** Gives back all that the slot was granted for these organizations. */
async function giveBack(
  db: Queryable,
  slot: number,
  ids: readonly string[],
  nowMs: number,
  { lowBalanceMicrocents = 0n, takenAtMs = null, onDayMended }: Omit<FoldOptions, 'after'>,
): Promise<void> {
  await renewShares(db, slot, new Map(ids.map((id) => [id, ALL])), nowMs, lowBalanceMicrocents, takenAtMs, onDayMended)
}
