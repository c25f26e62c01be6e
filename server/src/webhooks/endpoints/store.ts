/** Every query on endpoints. */

import { arrayLiteral, type Queryable, type Transaction } from '../../io/postgres/database.ts'
import { toTimestamp } from '../../kernel/time.ts'
import type { EventType } from '../event.ts'
import type { Place } from '../place.ts'
import type { Endpoint } from './endpoint.ts'

interface EndpointRow {
  readonly id: string
  readonly organization_id: string
  readonly url: string
  readonly event_types: readonly EventType[]
  readonly enabled: boolean
  readonly created_at: Date
}

const COLUMNS = 'id, organization_id, url, event_types, enabled, created_at'

/** How many endpoints an organization has, none added until the transaction ends. */
export async function countEndpoints(tx: Transaction, organizationId: string): Promise<number> {
  await tx.query('select 1 from organizations where id = $1::uuid for no key update', [organizationId])
  const rows = await tx.query<{ count: bigint }>(
    'select count(*) as count from webhook_endpoints where organization_id = $1::uuid',
    [organizationId],
  )
  return Number(rows[0]?.count ?? 0)
}

/** Makes an endpoint, and its place in the queue. `attempt`: whose kept answer shows the secret. Safe to repeat. */
export async function insertEndpoint(
  tx: Transaction,
  endpoint: Endpoint,
  sealedSecret: Uint8Array,
  attempt: string,
): Promise<void> {
  await tx.query(
    `insert into webhook_endpoints (${COLUMNS}, secret, attempt)
     values ($1::uuid, $2::uuid, $3, $4::text[], $5::boolean, $6::timestamptz, $7::bytea, $8::uuid)
     on conflict (id) do nothing`,
    [
      endpoint.id,
      endpoint.organizationId,
      endpoint.url,
      arrayLiteral(endpoint.eventTypes),
      endpoint.enabled,
      toTimestamp(endpoint.createdAtMs),
      sealedSecret,
      attempt,
    ],
  )
  await tx.query(
    'insert into webhook_turns (endpoint_id, is_slow) values ($1::uuid, false) on conflict (endpoint_id) do nothing',
    [endpoint.id],
  )
}

/** An organization's endpoints, oldest first, behind a place. */
export async function listEndpointsAfter(
  db: Queryable,
  organizationId: string,
  after: Place | null,
  limit: number,
): Promise<Endpoint[]> {
  const rows = await db.query<EndpointRow>(
    `select ${COLUMNS} from webhook_endpoints
     where organization_id = $1::uuid and ($2::timestamptz is null or (created_at, id) > ($2::timestamptz, $3::uuid))
     order by created_at, id limit $4::integer`,
    [organizationId, after === null ? null : toTimestamp(after.createdAtMs), after?.id ?? null, limit],
  )
  return rows.map(toEndpoint)
}

/**
 * One endpoint, if it is the organization's, held against its deletion until the transaction ends: what is noted for it
 * meanwhile is then there for the deletion to see.
 */
export async function holdEndpoint(tx: Transaction, organizationId: string, id: string): Promise<Endpoint | null> {
  const rows = await tx.query<EndpointRow>(
    `select ${COLUMNS} from webhook_endpoints where organization_id = $1::uuid and id = $2::uuid for key share`,
    [organizationId, id],
  )
  return rows[0] === undefined ? null : toEndpoint(rows[0])
}

/**
 * Deletes an endpoint with its secret, and what is still on its way to it; the attempt whose kept answer shows the secret,
 * or undefined when the organization has no such endpoint. First the endpoint: who publishes at the same time holds its
 * row, and what they wrote is then there to be deleted.
 */
export async function deleteEndpoint(
  tx: Transaction,
  organizationId: string,
  id: string,
): Promise<string | null | undefined> {
  const rows = await tx.query<{ attempt: string | null }>(
    'delete from webhook_endpoints where organization_id = $1::uuid and id = $2::uuid returning attempt',
    [organizationId, id],
  )
  if (rows[0] === undefined) return undefined
  // Two statements, each by its own index: for both kinds at once the whole table would be read, with the endpoint's row
  // locked against everybody who publishes.
  await tx.query("delete from webhook_deliveries where endpoint_id = $1::uuid and state = 'pending' and not is_new", [
    id,
  ])
  await tx.query('delete from webhook_deliveries where endpoint_id = $1::uuid and is_new', [id])
  return rows[0].attempt
}

function toEndpoint(row: EndpointRow): Endpoint {
  return {
    id: row.id,
    organizationId: row.organization_id,
    url: row.url,
    eventTypes: [...row.event_types],
    enabled: row.enabled,
    createdAtMs: row.created_at.getTime(),
  }
}
