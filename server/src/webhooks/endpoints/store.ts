/** Every query on endpoints. */

import { arrayLiteral, type Queryable, type Transaction } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { EventType } from '../events/event.ts'
import type { Place } from '../pages/place.ts'
import type { WebhookEndpoint } from './endpoint.ts'

interface EndpointRow {
  readonly id: string
  readonly organization_id: string
  readonly url: string
  readonly event_types: readonly EventType[]
  readonly enabled: boolean
  readonly created_at: Date
}

const COLUMNS = 'id, organization_id, url, event_types, enabled, created_at'

/** The URLs of an organization's endpoints, none added until the transaction ends; null where the organization is deleted. */
export async function lockUrls(tx: Transaction, organizationId: string): Promise<string[] | null> {
  const found = await tx.query(
    'select 1 from organizations where id = $1::uuid and deleted_at is null for no key update',
    [organizationId],
  )
  if (found.length === 0) return null
  const rows = await tx.query<{ url: string }>('select url from webhook_endpoints where organization_id = $1::uuid', [
    organizationId,
  ])
  return rows.map(({ url }) => url)
}

/** An encrypted secret, and the number of the data key that it is encrypted with. */
export interface SealedSecret {
  readonly bytes: Uint8Array
  readonly dataKey: number
}

/** Makes an endpoint, and its place in the queue. `attempt`: whose kept answer shows the secret. Safe to repeat. */
export async function insertEndpoint(
  tx: Transaction,
  endpoint: WebhookEndpoint,
  sealed: SealedSecret,
  attempt: string,
): Promise<void> {
  // The lock that it takes on the table keeps data keys from being dropped until the transaction ends.
  const dropped = await tx.query(
    "select 1 from data_keys where number = $1::smallint and state = 'dropped' for share",
    [sealed.dataKey],
  )
  if (dropped.length > 0) throw new Error(`the data key ${sealed.dataKey} was dropped before the endpoint was made`)
  await tx.query(
    `insert into webhook_endpoints (${COLUMNS}, secret, attempt, data_key)
     values ($1::uuid, $2::uuid, $3, $4::text[], $5::boolean, $6::timestamptz, $7::bytea, $8::uuid, $9::smallint)
     on conflict (id) do nothing`,
    [
      endpoint.id,
      endpoint.organizationId,
      endpoint.url,
      arrayLiteral(endpoint.eventTypes),
      endpoint.enabled,
      toTimestamp(endpoint.createdAtMs),
      sealed.bytes,
      attempt,
      sealed.dataKey,
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
): Promise<WebhookEndpoint[]> {
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
export async function holdEndpoint(
  tx: Transaction,
  organizationId: string,
  id: string,
): Promise<WebhookEndpoint | null> {
  const rows = await tx.query<EndpointRow>(
    `select ${COLUMNS} from webhook_endpoints where organization_id = $1::uuid and id = $2::uuid for key share`,
    [organizationId, id],
  )
  return rows[0] === undefined ? null : toEndpoint(rows[0])
}

/**
 * Deletes an endpoint with its secret, and what is still on its way to it, with its attempts. Returns the endpoint, and the attempt whose
 * kept answer shows the secret; null when the organization has no such endpoint. First the endpoint: who publishes at the same time
 * holds its row, and what they wrote is then there to be deleted.
 */
export async function deleteEndpointRow(
  tx: Transaction,
  organizationId: string,
  id: string,
): Promise<{ readonly endpoint: WebhookEndpoint; readonly attempt: string | null } | null> {
  const rows = await tx.query<EndpointRow & { attempt: string | null }>(
    `delete from webhook_endpoints where organization_id = $1::uuid and id = $2::uuid returning ${COLUMNS}, attempt`,
    [organizationId, id],
  )
  const [row] = rows
  if (row === undefined) return null
  // Two statements, each by its own index: for both kinds at once the whole table would be read, with the endpoint's row
  // locked against everybody who publishes.
  await tx.query(
    // As an array, so that the attempts are found by their index.
    `with dropped as (
       delete from webhook_deliveries where endpoint_id = $1::uuid and state = 'pending' and not is_new returning id
     )
     delete from webhook_attempts where delivery_id = any (array(select id from dropped))`,
    [id],
  )
  await tx.query('delete from webhook_deliveries where endpoint_id = $1::uuid and is_new', [id])
  return { endpoint: toEndpoint(row), attempt: row.attempt }
}

/** The ids of an organization's endpoints. */
export async function selectEndpointIds(tx: Transaction, organizationId: string): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    'select id from webhook_endpoints where organization_id = $1::uuid order by id',
    [organizationId],
  )
  return rows.map(({ id }) => id)
}

/** Returns whether any secret is sealed with a data key. */
export async function isSecretSealedWith(db: Queryable, number: number): Promise<boolean> {
  const rows = await db.query('select 1 from webhook_endpoints where data_key = $1::smallint limit 1', [number])
  return rows.length > 0
}

/** Secrets that are sealed with another data key than this, by the ids of their endpoints. */
export async function listSealedSecrets(db: Queryable, number: number, after: string | null, atMost: number) {
  return db.query<{ id: string; data_key: number; secret: Uint8Array }>(
    `select id, data_key, secret from webhook_endpoints
     where data_key <> $1::smallint and ($2::uuid is null or id > $2::uuid) order by id limit $3::integer`,
    [number, after, atMost],
  )
}

/** Replaces an endpoint's secret if it is still sealed with key `from`; returns whether it was. */
export async function putSealedSecret(
  tx: Transaction,
  id: string,
  from: number,
  secret: Uint8Array,
  number: number,
): Promise<boolean> {
  const rows = await tx.query(
    `update webhook_endpoints set secret = $3::bytea, data_key = $4::smallint
     where id = $1::uuid and data_key = $2::smallint returning 1`,
    [id, from, secret, number],
  )
  return rows.length > 0
}

function toEndpoint(row: EndpointRow): WebhookEndpoint {
  return {
    id: row.id,
    organizationId: row.organization_id,
    url: row.url,
    eventTypes: [...row.event_types],
    enabled: row.enabled,
    createdAtMs: row.created_at.getTime(),
  }
}
