/** The deliveries that wait, for operators. Reads only, at a cost that does not grow with the queues. */

import type { Queryable } from '../../infra/postgres/database.ts'
import { COUNTED_MOST } from '../../lib/gauge.ts'
import { MINUTE_MS, toTimestamp } from '../../lib/time.ts'

const TURNS_MOST = 1_000

/** A turn that a runner holds is due when that runner counts as dead, which is sooner than this. */
const HELD_MS = MINUTE_MS

export interface WaitingLane {
  /** `new`: nobody has told its endpoint's turn of it yet. */
  readonly lane: 'new' | 'fast' | 'slow'
  /** Due or being sent; at most `COUNTED_MOST`. */
  readonly waiting: number
  /** Since when the first of them is due; null: none waits. */
  readonly oldestAtMs: number | null
}

/** Every lane, also where nothing waits in it. */
export async function readWaiting(db: Queryable, nowMs: number): Promise<WaitingLane[]> {
  const rows = await db.query<{ lane: WaitingLane['lane']; waiting: bigint; oldest: Date | null }>(
    `select l.lane, w.waiting, w.oldest from (values ('fast', false), ('slow', true)) l (lane, is_slow)
     cross join lateral (
       with turns as materialized (
         select endpoint_id from webhook_turns t where t.is_slow = l.is_slow and t.due_at <= $2::timestamptz
         order by t.due_at limit $4::integer
       )
       select (select count(*) from (
           select from turns join webhook_deliveries d using (endpoint_id)
           where d.state = 'pending' and not d.is_new and d.due_at <= $1::timestamptz limit $3::integer) c) as waiting,
         (select min(f.due_at) from turns t cross join lateral (
           select d.due_at from webhook_deliveries d where d.endpoint_id = t.endpoint_id and d.state = 'pending'
             and not d.is_new and d.due_at <= $1::timestamptz order by d.due_at limit 1) f) as oldest
     ) w
     union all
     select 'new', count(*), min(created_at) from (
       select created_at from webhook_deliveries where is_new order by created_at limit $3::integer) n`,
    [toTimestamp(nowMs), toTimestamp(nowMs + HELD_MS), COUNTED_MOST, TURNS_MOST],
  )
  return rows.map(({ lane, waiting, oldest }) => {
    return { lane, waiting: Number(waiting), oldestAtMs: oldest?.getTime() ?? null }
  })
}

/** Endpoints of the slow lane that something is to be sent to, now or later; at most `COUNTED_MOST`. */
export async function countSlowEndpoints(db: Queryable): Promise<number> {
  const rows = await db.query<{ count: bigint }>(
    `select count(*) as count from (
       select from webhook_turns where is_slow and due_at is not null limit $1::integer) s`,
    [COUNTED_MOST],
  )
  return Number(rows[0]?.count ?? 0n)
}
