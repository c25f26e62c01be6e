import type { Queryable, Transaction } from '../io/postgres/database.ts'
import type { ApiKey, KeyAtTheDoor } from './key.ts'

/** Every statement on `api_keys`. Hashes go in and out as 64 hex digits. */

/** The channel on which each creation and revocation of a key is told; the payload is the key's hash in hex. */
export const KEYS_CHANNEL = 'tollgate_keys'

interface ApiKeyRow {
  readonly id: string
  readonly organization_id: string
  readonly scopes: string
  readonly admin: boolean
  readonly created_at: Date
  readonly expires_at: Date | null
  readonly revoked_at: Date | null
}

const COLUMNS = 'id, organization_id, scopes, admin, created_at, expires_at, revoked_at'

/** The key with this hash, whatever its state; undefined when there is none. */
export async function findKeyByHash(database: Queryable, keyHash: string): Promise<KeyAtTheDoor | undefined> {
  // As accounts.new_until is set: whether an organization is new has one meaning, for its spending cap and for its limits.
  const rows = await database.query<ApiKeyRow & { new_until: Date | null }>(
    `select ${COLUMNS}, (
       select o.created_at + interval '7 days' from organizations o
       where o.id = k.organization_id and o.standing = 'new' and o.first_paid_at is null
     ) as new_until
     from api_keys k where hash = $1`,
    [bytesOf(keyHash)],
  )
  return rows[0] && { ...fromRow(rows[0]), newUntilMs: rows[0].new_until?.getTime() ?? null }
}

/** Inserts a new key. The foreign key makes an unknown organization throw. */
export async function insertKey(database: Queryable, key: ApiKey, keyHash: string): Promise<void> {
  await database.query(
    `insert into api_keys (id, organization_id, hash, scopes, admin, created_at, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7)`,
    [
      key.id,
      key.organizationId,
      bytesOf(keyHash),
      key.scopes,
      key.admin,
      new Date(key.createdAtMs),
      key.expiresAtMs === null ? null : new Date(key.expiresAtMs),
    ],
  )
}

/** Tells every process that the key with this hash has come to be. */
export async function announceKey(database: Queryable, keyHash: string): Promise<void> {
  await database.query('select pg_notify($1, $2)', [KEYS_CHANNEL, keyHash])
}

/** Tells every process, when and only if the transaction commits, that what it knows of an organization's keys is old. */
export async function announceKeysOf(tx: Transaction, organizationId: string): Promise<void> {
  await tx.query("select pg_notify($1, encode(hash, 'hex'))::text from api_keys where organization_id = $2", [
    KEYS_CHANNEL,
    organizationId,
  ])
}

/**
 * Revokes a key and tells every process, in one statement: PostgreSQL delivers the notice when, and only if, the
 * revocation commits, so that no crash in between leaves a process serving a revoked key. A key that is revoked already
 * keeps its first instant and is told again. Undefined when there is no such key.
 */
export async function revokeKeyById(database: Queryable, id: string, atMs: number): Promise<ApiKey | undefined> {
  const rows = await database.query<ApiKeyRow>(
    `with revoked as (
       update api_keys set revoked_at = coalesce(revoked_at, $2) where id = $1 returning ${COLUMNS}, hash
     )
     select ${COLUMNS}, pg_notify($3, encode(hash, 'hex'))::text as told from revoked`,
    [id, new Date(atMs), KEYS_CHANNEL],
  )
  return rows[0] && fromRow(rows[0])
}

/** The keys of one organization, or all, oldest first. */
export async function selectKeys(database: Queryable, organizationId: string | null): Promise<ApiKey[]> {
  const rows = await database.query<ApiKeyRow>(
    `select ${COLUMNS} from api_keys where $1::uuid is null or organization_id = $1
     order by created_at, id`,
    [organizationId],
  )
  return rows.map(fromRow)
}

function fromRow(row: ApiKeyRow): ApiKey {
  return {
    id: row.id,
    organizationId: row.organization_id,
    scopes: row.scopes,
    admin: row.admin,
    createdAtMs: row.created_at.getTime(),
    expiresAtMs: row.expires_at?.getTime() ?? null,
    revokedAtMs: row.revoked_at?.getTime() ?? null,
  }
}

function bytesOf(keyHash: string): Uint8Array {
  return Buffer.from(keyHash, 'hex')
}
