/** The queries that note an event, in the transaction of what happened. */

import type { Transaction } from '../io/postgres/database.ts'
import { toTimestamp } from '../kernel/time.ts'
import type { PublishedEvent } from './event.ts'

/** Notes an event with the bytes of its deliveries; false when it is noted already. */
export async function insertEvent(tx: Transaction, event: PublishedEvent, body: string): Promise<boolean> {
  const rows = await tx.query(
    `insert into webhook_events (id, organization_id, type, body, created_at, written_by)
     values ($1::uuid, $2::uuid, $3, $4, $5::timestamptz, pg_current_xact_id())
     on conflict (id) do nothing returning 1`,
    [event.id, event.organizationId, event.type, body, toTimestamp(event.createdAtMs)],
  )
  return rows.length > 0
}

/**
 * Notes a delivery for each endpoint subscribed to an event. The endpoints' rows are locked against their deletion until
 * the transaction ends, so that none is deleted with a delivery on its way that its deletion did not see.
 */
export async function insertDeliveries(tx: Transaction, event: PublishedEvent): Promise<void> {
  await tx.query(
    `with subscribed as (
       select id from webhook_endpoints
       where organization_id = $2::uuid and enabled and $3 = any (event_types) for key share
     )
     insert into webhook_deliveries (id, organization_id, endpoint_id, event_id, state, attempts, attempts_before_round,
       due_at, is_new, created_at)
     select gen_random_uuid(), $2::uuid, id, $1::uuid, 'pending', 0, 0, $4::timestamptz, true, $4::timestamptz
     from subscribed`,
    [event.id, event.organizationId, event.type, toTimestamp(event.createdAtMs)],
  )
}
