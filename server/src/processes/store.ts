/** Every query on the slots of processes. */

import type { Queryable, Transaction } from '../infra/postgres/database.ts'
import { toTimestamp } from '../lib/time.ts'

/** Takes an advisory lock until the end of the transaction, if nobody has it. */
export async function lockForTransaction(tx: Transaction, lockClass: number, id: number): Promise<boolean> {
  const rows = await tx.query<{ done: boolean }>('select pg_try_advisory_xact_lock($1::int4, $2::int4) as done', [
    lockClass,
    id,
  ])
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
  const rows = await db.query<{ started_at: Date }>('select pg_postmaster_start_time() as started_at')
  return rows[0]?.started_at.getTime() ?? 0
}
