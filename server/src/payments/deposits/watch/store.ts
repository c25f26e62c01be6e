/** Every query on `deposit_chains`. */

import type { DepositChain } from '../../../catalog/depositChain.ts'
import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { arrayLiteral } from '../../../infra/postgres/database.ts'
import { toTimestamp } from '../../../lib/time.ts'

/** Where the watch of a chain stands. */
export interface ChainCursor {
  readonly settledBlock: number
  readonly headBlock: number
  readonly caughtUpAtMs: number
}

interface ChainRow {
  readonly settled_block: bigint
  readonly head_block: bigint
  readonly caught_up_at: Date
}

const COLUMNS = 'settled_block, head_block, caught_up_at'

/** Makes sure that chains have a row to be claimed by. They can't be paid on before their first look has ended. */
export async function insertChains(db: Queryable, chains: readonly DepositChain[], nowMs: number): Promise<void> {
  await db.query(
    `insert into deposit_chains (chain, settled_block, head_block, caught_up_at, seen_at, is_available, due_at)
     select chain, -1, -1, $2::timestamptz, $2::timestamptz, false, $2::timestamptz from unnest($1::text::text[]) chain
     on conflict do nothing`,
    [arrayLiteral(chains), toTimestamp(nowMs)],
  )
}

/** Claims chains that are due, at most `limit`: nobody else takes them before `untilMs`. */
export async function claimChains(
  db: Queryable,
  chains: readonly DepositChain[],
  at: { readonly nowMs: number; readonly untilMs: number },
  lease: string,
  limit: number,
): Promise<DepositChain[]> {
  const rows = await db.query<{ chain: DepositChain }>(
    `with due as (
       select chain from deposit_chains where chain = any($1::text::text[]) and due_at <= $2::timestamptz
       order by due_at limit $5::integer for update skip locked)
     update deposit_chains c set due_at = $3::timestamptz, lease = $4::uuid from due where c.chain = due.chain
     returning c.chain`,
    [arrayLiteral(chains), toTimestamp(at.nowMs), toTimestamp(at.untilMs), lease, limit],
  )
  return rows.map(({ chain }) => chain)
}

/** Makes a claim last until `untilMs`. False: another process has taken the chain. */
export async function renewChain(db: Queryable, chain: DepositChain, lease: string, untilMs: number): Promise<boolean> {
  const rows = await db.query(
    'update deposit_chains set due_at = $3::timestamptz where chain = $1 and lease = $2::uuid returning chain',
    [chain, lease, toTimestamp(untilMs)],
  )
  return rows.length === 1
}

/** Returns where the watch of a chain stands. */
export async function selectCursor(db: Queryable, chain: DepositChain): Promise<ChainCursor> {
  const rows = await db.query<ChainRow>(`select ${COLUMNS} from deposit_chains where chain = $1`, [chain])
  const [row] = rows
  if (row === undefined) throw new Error(`deposits: the chain ${chain} has no row`)
  return {
    settledBlock: Number(row.settled_block),
    headBlock: Number(row.head_block),
    caughtUpAtMs: row.caught_up_at.getTime(),
  }
}

/** Begins the watch of a chain behind a block. Does nothing where it was begun before. */
export async function beginCursor(db: Queryable, chain: DepositChain, block: number, nowMs: number): Promise<void> {
  await db.query(
    `update deposit_chains set settled_block = $2::bigint, caught_up_at = $3::timestamptz, is_begun = true
     where chain = $1 and not is_begun`,
    [chain, block, toTimestamp(nowMs)],
  )
}

/** Locks the cursor of a chain until the end of the transaction. Returns false if another process has moved it on from `settledBlock`. */
export async function lockCursor(tx: Transaction, chain: DepositChain, settledBlock: number): Promise<boolean> {
  const rows = await tx.query(
    'select 1 from deposit_chains where chain = $1 and settled_block = $2::bigint for update',
    [chain, settledBlock],
  )
  return rows.length === 1
}

/** Moves the cursor, which is locked. */
export async function moveCursor(tx: Transaction, chain: DepositChain, settledBlock: number): Promise<void> {
  await tx.query('update deposit_chains set settled_block = $2::bigint where chain = $1', [chain, settledBlock])
}

/** Writes down that the cursor was at the newest settled block at an instant, unless it was moved since. */
export async function noteCaughtUp(
  db: Queryable,
  chain: DepositChain,
  settledBlock: number,
  atMs: number,
): Promise<void> {
  await db.query(
    `update deposit_chains set caught_up_at = $3::timestamptz where chain = $1 and settled_block = $2::bigint`,
    [chain, settledBlock, toTimestamp(atMs)],
  )
}

/**
 * Writes down that a look has come to its end, with the newest blocks that it saw; null: it failed. Returns when the final block has last
 * moved; null where none was told yet, or another process has the chain.
 */
export async function noteChainLook(
  db: Queryable,
  chain: DepositChain,
  lease: string,
  looked: {
    readonly headBlock: number | null
    readonly finalBlock: number | null
    readonly atMs: number
    readonly dueAtMs: number
  },
): Promise<number | null> {
  const { headBlock, finalBlock, atMs, dueAtMs } = looked
  const rows = await db.query<{ final_moved_at: Date | null }>(
    `update deposit_chains set is_available = $3::bigint is not null, head_block = coalesce($3::bigint, head_block),
       seen_at = case when $3::bigint is null then seen_at else $4::timestamptz end, due_at = $5::timestamptz,
       final_block = greatest(final_block, $6::bigint),
       final_moved_at = case when $6::bigint > coalesce(final_block, -1) then $4::timestamptz else final_moved_at end
     where chain = $1 and lease = $2::uuid returning final_moved_at`,
    [chain, lease, headBlock, toTimestamp(atMs), toTimestamp(dueAtMs), finalBlock],
  )
  return rows[0]?.final_moved_at?.getTime() ?? null
}

/**
 * Returns whether the last look at a chain did not fail and is not older than `seenAfterMs`, and the final block has
 * moved since `movedAfterMs`.
 */
export async function selectAvailable(
  db: Queryable,
  chain: DepositChain,
  { seenAfterMs, movedAfterMs }: { readonly seenAfterMs: number; readonly movedAfterMs: number },
): Promise<boolean> {
  const rows = await db.query(
    `select 1 from deposit_chains where chain = $1 and is_available and seen_at >= $2::timestamptz
       and (final_moved_at is null or final_moved_at >= $3::timestamptz)`,
    [chain, toTimestamp(seenAfterMs), toTimestamp(movedAfterMs)],
  )
  return rows.length === 1
}

/**
 * Puts the cursor of a chain back before a block, and counts every address of the chain as watched until it has caught up. Returns where it
 * is then; null where the chain was never watched.
 */
export async function rewindCursor(
  db: Queryable,
  chain: DepositChain,
  fromBlock: number,
  nowMs: number,
): Promise<number | null> {
  const rows = await db.query<{ settled_block: bigint }>(
    `update deposit_chains set settled_block = least(settled_block, $2::bigint - 1), caught_up_at = 'epoch',
       final_block = null, due_at = $3::timestamptz
     where chain = $1 and is_begun returning settled_block`,
    [chain, fromBlock, toTimestamp(nowMs)],
  )
  return rows[0] === undefined ? null : Number(rows[0].settled_block)
}

/** Puts the cursor of a chain forward, behind a block. Returns where it was; null where it was there or further, or was never begun. */
export async function forwardCursor(
  db: Queryable,
  chain: DepositChain,
  toBlock: number,
  nowMs: number,
): Promise<number | null> {
  const rows = await db.query<{ settled_block: bigint }>(
    `with before as (
       select chain, settled_block from deposit_chains
       where chain = $1 and is_begun and settled_block < $2::bigint for update)
     update deposit_chains c set settled_block = $2::bigint, due_at = $3::timestamptz from before
     where c.chain = before.chain returning before.settled_block`,
    [chain, toBlock, toTimestamp(nowMs)],
  )
  return rows[0] === undefined ? null : Number(rows[0].settled_block)
}

/** A chain for the metrics. */
export interface ChainFigures {
  readonly chain: DepositChain
  readonly settledBlock: number
  readonly headBlock: number
  readonly seenAtMs: number
  readonly isAvailable: boolean
  /** When the final block was last seen to move; null: it was not seen yet. */
  readonly finalMovedAtMs: number | null
}

/** Returns where the watches of these chains stand. */
export async function selectChains(db: Queryable, chains: readonly DepositChain[]): Promise<ChainFigures[]> {
  const rows = await db.query<
    ChainRow & { chain: DepositChain; seen_at: Date; is_available: boolean; final_moved_at: Date | null }
  >(
    `select chain, seen_at, is_available, final_moved_at, ${COLUMNS} from deposit_chains where chain = any($1::text::text[]) order by chain`,
    [arrayLiteral(chains)],
  )
  return rows.map((row) => ({
    chain: row.chain,
    settledBlock: Number(row.settled_block),
    headBlock: Number(row.head_block),
    seenAtMs: row.seen_at.getTime(),
    isAvailable: row.is_available,
    finalMovedAtMs: row.final_moved_at?.getTime() ?? null,
  }))
}
