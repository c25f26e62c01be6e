/** The queries by which events are followed. */

import { arrayLiteral, type Queryable } from '../../infra/postgres/database.ts'
import type { EventType } from './event.ts'

/** Behind an event, in the order of their transactions. */
export interface EventPlace {
  /** The transaction's number, as text: it has 64 bits. */
  readonly writtenBy: string
  /** Null: behind everything of that transaction and those before. */
  readonly id: string | null
}

export interface FollowedEvent extends EventPlace {
  readonly id: string
  readonly type: EventType
  readonly body: string
}

/** Returns the transactions that have committed by now, as PostgreSQL writes them: `oldest open:next:open,open…`. */
export async function readSnapshot(db: Queryable): Promise<string> {
  const rows = await db.query<{ snapshot: string }>('select pg_current_snapshot()::text as snapshot')
  return rows[0]?.snapshot ?? '1:1:'
}

/** The place of an organization's event; null when there is none of this id (any more). */
export async function findEventPlace(db: Queryable, organizationId: string, id: string): Promise<EventPlace | null> {
  const rows = await db.query<{ id: string; written_by: string }>(
    'select id, written_by::text as written_by from webhook_events where organization_id = $1::uuid and id = $2::uuid',
    [organizationId, id],
  )
  return rows[0] === undefined ? null : { id: rows[0].id, writtenBy: rows[0].written_by }
}

/**
 * The number below which every transaction that could have written an event is over: statements that begin after this one
 * see what those committed, whole. Transactions of other databases of the server have numbers of the same row, but hold
 * nothing back; neither does the server's own housekeeping. All users may see the columns that this reads.
 */
export async function readHorizon(db: Queryable): Promise<string> {
  const rows = await db.query<{ horizon: string }>(
    `with now as materialized (select pg_current_snapshot() as snapshot),
     ours as materialized (
       select backend_xid::text::numeric as number from pg_stat_get_activity(null::integer)
       where datid = (select oid from pg_database where datname = current_database()) and usesysid is not null
     )
     select coalesce((
       select open from now, pg_snapshot_xip(snapshot) as open
       -- Sessions show the lower half of the number.
       where open::text::numeric % 4294967296 in (select number from ours) order by open limit 1
     ), (select pg_snapshot_xmax(snapshot) from now))::text as horizon`,
  )
  return rows[0]?.horizon ?? '0'
}

/** Comes behind every id: with it a place is behind all events of its transaction. */
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

export interface EventRange {
  readonly after: EventPlace
  /** Transactions from `after` on whose events are in the range too, before those behind `next`: they were open when it began. */
  readonly open: readonly string[]
  /** Of all other transactions only those from this one on; null: all behind `after`. */
  readonly next: string | null
  /** As {@link readHorizon} found it: what comes later may still have something committed before it. */
  readonly horizon: string
}

/**
 * Returns an organization's events in a range, in the order of their transactions. Reads those that it returns, and looks once for each
 * transaction that was open: a condition on the snapshot itself would read all events that the snapshot shows.
 */
export async function listEvents(
  db: Queryable,
  organizationId: string,
  { after: { writtenBy, id }, open, next, horizon }: EventRange,
  limit: number,
): Promise<FollowedEvent[]> {
  const isBefore = next !== null && BigInt(writtenBy) < BigInt(next)
  const behind = isBefore ? [String(BigInt(next) - 1n), LAST_ID] : [writtenBy, id ?? LAST_ID]
  const rows = await db.query<{ id: string; written_by: string; type: EventType; body: string }>(
    `select id, found.written_by::text as written_by, type, body from (
       (select e.* from unnest($5::text::text[]) as o (number) cross join lateral (
         select id, written_by, type, body from webhook_events
         where organization_id = $1::uuid and written_by = o.number::xid8 and (written_by, id) > ($2::text::xid8, $3::uuid)
           and written_by < $8::text::xid8
         order by webhook_events.written_by, id limit $4::integer
       ) e)
       union all
       (select id, written_by, type, body from webhook_events
        where organization_id = $1::uuid and (written_by, id) > ($6::text::xid8, $7::uuid) and written_by < $8::text::xid8
        order by webhook_events.written_by, id limit $4::integer)
     ) found
     -- The column, not what is selected by its name: as text 10 comes before 9.
     order by found.written_by, id limit $4::integer`,
    [organizationId, writtenBy, id ?? LAST_ID, limit, arrayLiteral(open), ...behind, horizon],
  )
  return rows.map(({ written_by, ...row }) => ({ ...row, writtenBy: written_by }))
}
