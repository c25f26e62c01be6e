/** The queries that note an event, in the transaction of what happened. */

import type { Transaction } from '../infra/postgres/database.ts'
import { toTimestamp } from '../lib/time.ts'
import type { PublishedEvent } from './events/event.ts'

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
 * the transaction ends, so that none is deleted with a delivery on its way that its deletion did not see. Those beyond
 * `pendingMost` pending ones of the organization are dead, with the reason. Reads at most `pendingMost` entries of an index of
 * pending deliveries alone.
 */
export async function insertDeliveries(tx: Transaction, event: PublishedEvent, pendingMost: number): Promise<void> {
  await tx.query(
    `with subscribed as materialized (
       select id from webhook_endpoints
       where organization_id = $2::uuid and enabled and $3 = any (event_types) for key share
     ), pending as materialized (
       select count(*) as count from (
         select from webhook_deliveries where organization_id = $2::uuid and state = 'pending' limit $5::integer
       ) counted
     ), added as (
       select s.id, p.count + row_number() over (order by s.id) > $5::integer as is_excess from subscribed s, pending p
     )
     insert into webhook_deliveries (id, organization_id, endpoint_id, event_id, state, reason, attempts,
       attempts_before_round, due_at, is_new, created_at)
     select gen_random_uuid(), $2::uuid, id, $1::uuid, case when is_excess then 'dead' else 'pending' end,
       case when is_excess then 'too_many_pending' end, 0, 0, case when not is_excess then $4::timestamptz end,
       not is_excess, $4::timestamptz
     from added`,
    [event.id, event.organizationId, event.type, toTimestamp(event.createdAtMs), pendingMost],
  )
}
