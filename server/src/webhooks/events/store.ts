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

/** Where events begin that are not to be seen yet: behind all that has committed. */
export async function findEventsEnd(db: Queryable): Promise<EventPlace> {
  const rows = await db.query<{ next: string }>('select pg_snapshot_xmin(pg_current_snapshot())::text as next')
  return { writtenBy: String(BigInt(rows[0]?.next ?? '1') - 1n), id: null }
}

/** The place of an organization's event; null when there is none of this id (any more). */
export async function findEventPlace(db: Queryable, organizationId: string, id: string): Promise<EventPlace | null> {
  const rows = await db.query<{ id: string; written_by: string }>(
    'select id, written_by::text as written_by from webhook_events where organization_id = $1::uuid and id = $2::uuid',
    [organizationId, id],
  )
  return rows[0] === undefined ? null : { id: rows[0].id, writtenBy: rows[0].written_by }
}

/** An organization's events behind a place that nothing which still runs can come before. */
export async function listEventsAfter(
  db: Queryable,
  organizationId: string,
  { writtenBy, id }: EventPlace,
  limit: number,
): Promise<FollowedEvent[]> {
  const rows = await db.query<{ id: string; written_by: string; type: EventType; body: string }>(
    `select id, written_by::text as written_by, type, body from webhook_events
     where organization_id = $1::uuid and (written_by, id) > ($2::text::xid8, $3::uuid)
       and written_by < pg_snapshot_xmin(pg_current_snapshot())
     order by written_by, id limit $4::integer`,
    [organizationId, writtenBy, id ?? 'ffffffff-ffff-ffff-ffff-ffffffffffff', limit],
  )
  return rows.map(({ written_by, ...row }) => ({ ...row, writtenBy: written_by }))
}
