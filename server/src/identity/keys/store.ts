import type { Role } from '../../http/principal.ts'
import { arrayLiteral, type Queryable, type Transaction } from '../../infra/postgres/database.ts'
import { NEW_ACCOUNT_DAYS } from '../../lib/newAccount.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { ApiKey, HeldKey, KeyOwnerFilter, KeyToAuthenticate, ListedKey, LockedKey } from './key.ts'
import {
  type ApiKeyRow,
  CURRENT_KEY_COLUMNS,
  KEY_COLUMNS,
  keyFromRow,
  LISTED_KEY_COLUMNS,
  type ListedKeyRow,
  listedKeyFromRow,
} from './row.ts'

/** Every statement on `api_keys` and `key_uses`. Hashes go in and out as 64 hex digits. */

/** The channel on which each creation and revocation of a key is told; the payload is the key's hash in hex. */
export const KEYS_CHANNEL = 'tollgate_keys'

/** The keys with these hashes, whatever their state, by hash. */
export async function findKeysByHash(
  database: Queryable,
  keyHashes: readonly string[],
): Promise<Map<string, KeyToAuthenticate>> {
  // The same rule as `accounts.new_until`, so that the spending cap and the rate limit agree on who is new.
  const rows = await database.query<ApiKeyRow & { hash: string; new_until: Date | null }>(
    `select ${CURRENT_KEY_COLUMNS}, encode(hash, 'hex') as hash, (
       select o.created_at + interval '${NEW_ACCOUNT_DAYS} days' from organizations o
       where o.id = k.organization_id and o.standing = 'new' and o.first_paid_at is null
     ) as new_until
     from api_keys k where hash = any ($1::text::bytea[])`,
    [arrayLiteral(keyHashes.map((keyHash) => `\\x${keyHash}`))],
  )
  return new Map(rows.map((row) => [row.hash, { ...keyFromRow(row), newUntilMs: row.new_until?.getTime() ?? null }]))
}

/** Inserts a new key; false where the organization is deleted, or there is none. It is not deleted until the key is there. */
export async function insertKey(database: Queryable, key: ApiKey, keyHash: string): Promise<boolean> {
  const rows = await database.query(
    `insert into api_keys (id, organization_id, hash, scopes, admin, created_at, expires_at, name, member_id)
     select $1::uuid, o.id, $3::bytea, $4, $5::boolean, $6::timestamptz, $7::timestamptz, $8, $9::uuid
     from organizations o where o.id = $2::uuid and o.deleted_at is null for share
     returning id`,
    [
      key.id,
      key.organizationId,
      bytesOf(keyHash),
      key.scopes,
      key.admin,
      new Date(key.createdAtMs),
      key.expiresAtMs === null ? null : new Date(key.expiresAtMs),
      key.name,
      key.memberId,
    ],
  )
  return rows.length === 1
}

/** Tells every process that the key with this hash has come to be. */
export async function announceKey(database: Queryable, keyHash: string): Promise<void> {
  await database.query('select pg_notify($1, $2)', [KEYS_CHANNEL, keyHash])
}

/** Tells every process, when and only if the transaction commits, that what it knows of an organization's keys is old. */
export async function announceKeysOf(tx: Transaction, organizationId: string): Promise<void> {
  await tx.query(
    "select pg_notify($1, encode(hash, 'hex'))::text from api_keys where organization_id = $2 and revoked_at is null",
    [KEYS_CHANNEL, organizationId],
  )
}

/** The same of a member's keys with an admin's rights that had not expired at `sinceMs`. */
export async function announceAdminKeysOf(tx: Transaction, memberId: string, sinceMs: number): Promise<void> {
  await tx.query(
    `select pg_notify($1, encode(hash, 'hex'))::text from api_keys
     where member_id = $2 and admin and revoked_at is null and (expires_at is null or expires_at > $3)`,
    [KEYS_CHANNEL, memberId, new Date(sinceMs)],
  )
}

/**
 * Revokes a key and tells every process, in one statement: PostgreSQL delivers the notice when, and only if, the
 * revocation commits, so that no crash in between leaves a process serving a revoked key. A key that is revoked already
 * keeps its first instant and is told again. Undefined when there is no such key.
 */
export async function revokeKeyById(database: Queryable, id: string, atMs: number): Promise<ApiKey | undefined> {
  const rows = await database.query<ApiKeyRow>(
    `with revoked as (
       update api_keys set revoked_at = coalesce(revoked_at, $2) where id = $1 returning ${KEY_COLUMNS}, hash
     )
     select ${KEY_COLUMNS}, pg_notify($3, encode(hash, 'hex'))::text as told from revoked`,
    [id, new Date(atMs), KEYS_CHANNEL],
  )
  return rows[0] && keyFromRow(rows[0])
}

/** Revokes the keys of a member that are not, and tells every process, when and only if the transaction commits. */
export async function revokeKeysByMember(tx: Transaction, memberId: string, atMs: number): Promise<number> {
  const rows = await tx.query(
    `with revoked as (
       update api_keys set revoked_at = $2 where member_id = $1 and revoked_at is null returning hash
     )
     select pg_notify($3, encode(hash, 'hex'))::text as told from revoked`,
    [memberId, new Date(atMs), KEYS_CHANNEL],
  )
  return rows.length
}

/**
 * Revokes the keys of an organization that are not, tells every process when and only if the transaction commits, and erases the names
 * of all of them. Returns how many were revoked.
 */
export async function revokeKeysByOrganization(tx: Transaction, organizationId: string, atMs: number): Promise<number> {
  const rows = await tx.query(
    `with revoked as (
       update api_keys set revoked_at = $2, name = null where organization_id = $1 and revoked_at is null returning hash
     )
     select pg_notify($3, encode(hash, 'hex'))::text as told from revoked`,
    [organizationId, new Date(atMs), KEYS_CHANNEL],
  )
  await tx.query('update api_keys set name = null where organization_id = $1 and name is not null', [organizationId])
  return rows.length
}

/** Returns whether any organization has a key that may be used. */
export async function selectHasUsableKey(database: Queryable, nowMs: number): Promise<boolean> {
  const usable = 'revoked_at is null and (expires_at is null or expires_at > $1)'
  return (await database.query(`select 1 from api_keys where ${usable} limit 1`, [new Date(nowMs)])).length > 0
}

/** Returns at most `atMost` ids of an organization's keys, in their order, after `afterId`. */
export async function selectKeyIds(
  database: Queryable,
  organizationId: string,
  afterId: string | null,
  atMost: number,
): Promise<string[]> {
  const rows = await database.query<{ id: string }>(
    `select id from api_keys where organization_id = $1 and ($2::uuid is null or id > $2::uuid)
     order by id limit $3::integer`,
    [organizationId, afterId, atMost],
  )
  return rows.map(({ id }) => id)
}

/** The member that a key belongs to; null: the organization. */
export async function selectMemberOfKey(database: Queryable, id: string): Promise<string | null> {
  const rows = await database.query<{ member_id: string | null }>('select member_id from api_keys where id = $1', [id])
  return rows[0]?.member_id ?? null
}

/** A key with its organization and its person; undefined where the organization is deleted, or there is no such key. */
export async function selectHeldKey(database: Queryable, id: string): Promise<HeldKey | undefined> {
  const rows = await database.query<
    ApiKeyRow & {
      organization_name: string
      person_name: string | null
      person_email: string | null
      person_role: Role | null
    }
  >(
    `with held as (select ${CURRENT_KEY_COLUMNS} from api_keys k where id = $1)
     select held.*, o.name as organization_name, u.name as person_name, u.email as person_email, m.role as person_role
     from held join organizations o on o.id = held.organization_id and o.deleted_at is null
     left join members m on m.id = held.member_id and m.removed_at is null left join users u on u.id = m.user_id`,
    [id],
  )
  const [row] = rows
  if (row === undefined) return undefined
  const { organization_name: organizationName, person_name: name, person_email: email, person_role: role } = row
  const person = name === null || email === null || role === null ? null : { name, email, role }
  return { ...keyFromRow(row), organizationName, person }
}

/** Keeps the member whose key it is from being changed or removed, until the transaction ends. */
export async function lockOwnerOf(tx: Transaction, keyId: string): Promise<void> {
  await tx.query('select 1 from members where id = (select member_id from api_keys where id = $1) for share', [keyId])
}

/** When the keys end, as they are now. */
export async function selectKeyEnds(
  database: Queryable,
  ids: readonly string[],
): Promise<{ readonly id: string; readonly isRevoked: boolean; readonly expiresAtMs: number | null }[]> {
  const rows = await database.query<{ id: string; is_revoked: boolean; expires_at: Date | null }>(
    'select id, revoked_at is not null as is_revoked, expires_at from api_keys where id = any ($1::text::uuid[])',
    [arrayLiteral(ids)],
  )
  return rows.map((row) => ({
    id: row.id,
    isRevoked: row.is_revoked,
    expiresAtMs: row.expires_at?.getTime() ?? null,
  }))
}

/** The keys of one organization, oldest first. */
export async function selectKeys(database: Queryable, organizationId: string): Promise<ListedKey[]> {
  const rows = await database.query<ListedKeyRow>(
    `select ${LISTED_KEY_COLUMNS} from api_keys k where organization_id = $1 order by created_at, id`,
    [organizationId],
  )
  return rows.map(listedKeyFromRow)
}

/**
 * The role of a member now, kept from changing until the end of the transaction; undefined for one who was removed. A request
 * was let in by the role of an instant before.
 */
export async function lockRoleOf(tx: Transaction, memberId: string): Promise<Role | undefined> {
  const rows = await tx.query<{ role: Role }>(
    'select role from members where id = $1 and removed_at is null for share',
    [memberId],
  )
  return rows[0]?.role
}

/** Returns at most `atMost` keys of an organization, or of all (null), before the id `beforeId`, the newest first. */
export async function selectKeyPage(
  database: Queryable,
  { organizationId, memberId }: Omit<KeyOwnerFilter, 'organizationId'> & { readonly organizationId: string | null },
  beforeId: string | null,
  atMost: number,
): Promise<ListedKey[]> {
  const rows = await database.query<ListedKeyRow>(
    `select ${LISTED_KEY_COLUMNS} from api_keys k where ${organizationId === null ? '$1::uuid is null' : 'organization_id = $1'}
       and ($2::uuid is null or member_id = $2::uuid) and ($3::uuid is null or id < $3::uuid)
     order by id desc limit $4::integer`,
    [organizationId, memberId, beforeId, atMost],
  )
  return rows.map(listedKeyFromRow)
}

/** Returns at most `atMost` keys of all memberships of a person, ended ones too, in the order of their ids, after `afterId`. */
export async function selectKeysOfPerson(
  database: Queryable,
  userId: string,
  afterId: string | null,
  atMost: number,
): Promise<ListedKey[]> {
  const rows = await database.query<ListedKeyRow>(
    `select ${LISTED_KEY_COLUMNS} from api_keys k where member_id in (select id from members where user_id = $1)
       and ($2::uuid is null or id > $2::uuid) order by id limit $3::integer`,
    [userId, afterId, atMost],
  )
  return rows.map(listedKeyFromRow)
}

/** Takes the names from the keys of all memberships of a person. */
export async function clearKeyNames(tx: Transaction, userId: string): Promise<void> {
  await tx.query(
    `update api_keys set name = null
     where member_id in (select id from members where user_id = $1) and name is not null`,
    [userId],
  )
}

/** A key, locked until the end of the transaction. */
export async function lockKey(
  tx: Transaction,
  { organizationId, memberId }: KeyOwnerFilter,
  id: string,
): Promise<LockedKey | undefined> {
  const rows = await tx.query<ApiKeyRow & { own_expires_at: Date | null }>(
    `select ${CURRENT_KEY_COLUMNS},
       case when rotated_at is null then expires_at else expires_at_before_rotation end as own_expires_at
     from api_keys k where id = $3 and organization_id = $1
       and ($2::uuid is null or member_id = $2::uuid) for update of k`,
    [organizationId, memberId, id],
  )
  return rows[0] && { ...keyFromRow(rows[0]), ownExpiresAtMs: rows[0].own_expires_at?.getTime() ?? null }
}

/**
 * Sets the name of a key, and its expiry unless that is null, and tells every process as it commits; writes nothing where nothing
 * changes. The expiry counts as the key's own even if it was rotated.
 */
export async function updateKey(tx: Transaction, id: string, name: string | null, expiresAtMs: number | null) {
  await tx.query(
    `with changed as (
       update api_keys set name = $2, expires_at = coalesce($3::timestamptz, expires_at),
         rotated_at = case when $3::timestamptz is null then rotated_at end,
         expires_at_before_rotation = case when $3::timestamptz is null then expires_at_before_rotation end
       where id = $1 and (name is distinct from $2
         or $3::timestamptz is not null and (rotated_at is not null or expires_at is distinct from $3::timestamptz))
       returning hash
     )
     select pg_notify($4, encode(hash, 'hex'))::text as told from changed`,
    [id, name, expiresAtMs === null ? null : new Date(expiresAtMs), KEYS_CHANNEL],
  )
}

/** Sets the end of the overlap of a key, keeps the expiry that it had before its first rotation, and tells every process as it commits. */
export async function updateKeyRotated(tx: Transaction, id: string, endsAtMs: number, nowMs: number): Promise<void> {
  await tx.query(
    `with changed as (
       update api_keys set expires_at = $2, rotated_at = coalesce(rotated_at, $3),
         expires_at_before_rotation = case when rotated_at is null then expires_at else expires_at_before_rotation end
       where id = $1 returning hash
     )
     select pg_notify($4, encode(hash, 'hex'))::text as told from changed`,
    [id, new Date(endsAtMs), new Date(nowMs), KEYS_CHANNEL],
  )
}

/** Locks an organization for new keys, and counts those that may be used. Whether it is deleted, the insert of the key says. */
export async function countUsableKeys(tx: Transaction, organizationId: string, nowMs: number): Promise<number> {
  await tx.query('select 1 from organizations where id = $1 for no key update', [organizationId])
  const rows = await tx.query<{ count: bigint }>(
    'select count(*) from api_keys where organization_id = $1 and revoked_at is null and (expires_at is null or expires_at > $2)',
    [organizationId, new Date(nowMs)],
  )
  return Number(rows[0]?.count ?? 0)
}

/** Writes when keys were last used. Each key is written at most once a minute, by all processes together. */
export async function upsertUses(database: Queryable, uses: readonly (readonly [string, number])[]): Promise<void> {
  await database.query(
    `insert into key_uses as u (key_id, used_at)
     select key_id, used_at from unnest($1::text::uuid[], $2::text::timestamptz[]) as n (key_id, used_at) order by key_id
     on conflict (key_id) do update set used_at = excluded.used_at
       where u.used_at <= excluded.used_at - interval '1 minute'`,
    [arrayLiteral(uses.map(([keyId]) => keyId)), arrayLiteral(uses.map(([, atMs]) => toTimestamp(atMs)))],
  )
}

function bytesOf(keyHash: string): Uint8Array {
  return Buffer.from(keyHash, 'hex')
}
