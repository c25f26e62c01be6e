/** The queries by which events are followed. */

import type { Queryable } from '../../io/postgres/database.ts'
import type { EventType } from '../event.ts'

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

/** What has committed by now, as PostgreSQL writes it: `oldest open:next:open,open…`. */
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

/** An organization's events behind a place, without those that a snapshot shows, that nothing which still runs can come before. */
export async function listEventsAfter(
  db: Queryable,
  organizationId: string,
  { writtenBy, id }: EventPlace,
  since: string | null,
  limit: number,
): Promise<FollowedEvent[]> {
  const rows = await db.query<{ id: string; written_by: string; type: EventType; body: string }>(
    `select id, written_by::text as written_by, type, body from webhook_events
     where organization_id = $1::uuid and (written_by, id) > ($2::text::xid8, $3::uuid)
       and written_by < pg_snapshot_xmin(pg_current_snapshot())
       and ($5::text is null or not pg_visible_in_snapshot(written_by, $5::text::pg_snapshot))
     order by written_by, id limit $4::integer`,
    [organizationId, writtenBy, id ?? 'ffffffff-ffff-ffff-ffff-ffffffffffff', limit, since],
  )
  return rows.map(({ written_by, ...row }) => ({ ...row, writtenBy: written_by }))
}
