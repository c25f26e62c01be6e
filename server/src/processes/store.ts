/** Every query on the slots of processes. */

import type { Queryable, Transaction } from '../infra/postgres/database.ts'
import { toTimestamp } from '../lib/time.ts'

/** Takes an advisory lock until the end of the transaction, if nobody has it. */
export async function takeLock(tx: Transaction, lockClass: number, id: number): Promise<boolean> {
  const rows = await tx.query<{ done: boolean }>('select pg_try_advisory_xact_lock($1::int4, $2::int4) as done', [
    lockClass,
    id,
  ])
  return rows[0]?.done === true
}

/** Keeps everybody from taking an advisory lock until the end of the transaction, if nobody has it. Several may do so at once. */
export async function shareLock(tx: Transaction, lockClass: number, id: number): Promise<boolean> {
  const rows = await tx.query<{ done: boolean }>(
    'select pg_try_advisory_xact_lock_shared($1::int4, $2::int4) as done',
    [lockClass, id],
  )
  return rows[0]?.done === true
}

/** Slots that were ever used, lowest first. */
export async function listSlots(db: Queryable): Promise<number[]> {
  const rows = await db.query<{ slot: number }>('select slot from processes order by slot')
  return rows.map((row) => row.slot)
}

/** Takings of a slot, each named by its instant in milliseconds. */
export interface SlotTaken {
  readonly takenAtMs: number
  /** The taking before; null: nobody ever had it. */
  readonly beforeMs: number | null
}

/**
 * Notes that a process has taken a slot. The instant that is noted is later than that of anyone who had it before,
 * whatever their clocks say: it names this taking. To be run on the connection that has the slot's lock: without
 * the lock there is no connection either, and nobody takes a slot that is another's by now.
 */
export async function takeSlot(session: Queryable, slot: number, atMs: number): Promise<SlotTaken> {
  const rows = await session.query<{ started_at: Date; before: Date | null }>(
    `with before as (select started_at from processes where slot = $1::integer)
     insert into processes as p (slot, started_at) values ($1::integer, $2::timestamptz)
     on conflict (slot) do update set started_at = greatest(excluded.started_at, p.started_at + interval '1 millisecond')
     returning started_at, (select started_at from before) as before`,
    [slot, toTimestamp(atMs)],
  )
  return { takenAtMs: rows[0]?.started_at.getTime() ?? atMs, beforeMs: rows[0]?.before?.getTime() ?? null }
}

/** When the database server was started, by its own clock, in milliseconds since the epoch. */
export async function readServerStart(db: Queryable): Promise<number> {
  const rows = await db.query<{ since: Date }>('select pg_postmaster_start_time() as since')
  return rows[0]?.since.getTime() ?? 0
}

/**
 * When the database server was started, or its present timeline was first seen, whichever is later; by its own clock, in milliseconds
 * since the epoch. Notes a timeline that nobody has seen. The first one of all counts from the server's start.
 */
export async function readLifeStart(db: Queryable): Promise<number> {
  const rows = await db.query<{ since: Date }>(
    `with present as materialized (
       select oid || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as name from pg_database
       where datname = current_database()
     ), noted as (
       insert into timelines (name, seen_at)
       select name, case when exists (select from timelines) then clock_timestamp() else pg_postmaster_start_time() end
       from present where not exists (select from timelines known where known.name = present.name)
       on conflict do nothing returning seen_at
     )
     select greatest(pg_postmaster_start_time(), coalesce(
       (select seen_at from timelines join present using (name)), (select seen_at from noted), clock_timestamp())) as since`,
  )
  return rows[0]?.since.getTime() ?? 0
}
