import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import type { FoundPasskey, Passkey, PasskeyCredential } from './passkey.ts'

/** Every statement on `passkeys` and `passkey_challenges`. */

/** Inserts a challenge, in place of the one that the browser had. */
export async function replaceChallenge(
  database: Queryable,
  { browser, challenge, userId }: { browser: Uint8Array; challenge: Uint8Array; userId: string | null },
  expiresAtMs: number,
): Promise<void> {
  await database.query(
    `insert into passkey_challenges (browser, challenge, user_id, expires_at) values ($1, $2, $3, $4)
     on conflict (browser) do update
       set challenge = excluded.challenge, user_id = excluded.user_id, expires_at = excluded.expires_at`,
    [browser, challenge, userId, new Date(expiresAtMs)],
  )
}

/** Uses a challenge up: of two answers at the same time one gets null. */
export async function deleteChallenge(
  database: Queryable,
  browser: Uint8Array,
  userId: string | null,
  nowMs: number,
): Promise<Uint8Array | null> {
  const rows = await database.query<{ challenge: Uint8Array }>(
    `delete from passkey_challenges where browser = $1 and user_id is not distinct from $2::uuid and expires_at > $3
     returning challenge`,
    [browser, userId, new Date(nowMs)],
  )
  return rows[0]?.challenge ?? null
}

/** Removes at most `atMost` challenges that have expired; returns how many. */
export async function deleteExpiredChallenges(database: Queryable, nowMs: number, atMost: number): Promise<number> {
  const rows = await database.query(
    `delete from passkey_challenges where browser in (
       select browser from passkey_challenges where expires_at <= $1 order by expires_at limit $2::integer
     ) returning browser`,
    [new Date(nowMs), atMost],
  )
  return rows.length
}

/** Returns at most `atMost` passkeys of a person, the oldest first. */
export async function selectPasskeys(database: Queryable, userId: string, atMost: number): Promise<Passkey[]> {
  const rows = await database.query<{ id: string; name: string; created_at: Date; last_used_at: Date | null }>(
    `select id, name, created_at, last_used_at from passkeys where user_id = $1
     order by created_at, id limit $2::integer`,
    [userId, atMost],
  )
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    createdAtMs: row.created_at.getTime(),
    lastUsedAtMs: row.last_used_at?.getTime() ?? null,
  }))
}

/** Returns at most `atMost` of the ids that devices gave to the person's passkeys. */
export async function selectCredentialIds(database: Queryable, userId: string, atMost: number): Promise<Uint8Array[]> {
  const rows = await database.query<{ credential_id: Uint8Array }>(
    'select credential_id from passkeys where user_id = $1 limit $2::integer',
    [userId, atMost],
  )
  return rows.map((row) => row.credential_id)
}

/** The passkey with the id that a device gave it. */
export async function selectPasskeyByCredential(
  database: Queryable,
  credentialId: Uint8Array,
): Promise<FoundPasskey | null> {
  const rows = await database.query<{
    id: string
    user_id: string
    credential_id: Uint8Array
    public_key: Uint8Array
    sign_count: bigint
  }>('select id, user_id, credential_id, public_key, sign_count from passkeys where credential_id = $1', [credentialId])
  const [row] = rows
  if (row === undefined) return null
  return {
    id: row.id,
    userId: row.user_id,
    credentialId: row.credential_id,
    publicKey: row.public_key,
    signCount: Number(row.sign_count),
  }
}

/** Inserts a passkey. False when the person has so many already, or somebody has this one. The caller has locked the person. */
export async function insertPasskey(
  tx: Transaction,
  passkey: PasskeyCredential & { readonly id: string; readonly userId: string; readonly name: string },
  atMs: number,
  atMost: number,
): Promise<boolean> {
  const rows = await tx.query(
    `insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, created_at)
     select $1::uuid, $2::uuid, $3::bytea, $4::bytea, $5::bigint, $6::text, $7::timestamptz
     where (select count(*) from passkeys where user_id = $2::uuid) < $8::integer
     on conflict (credential_id) do nothing returning id`,
    [
      passkey.id,
      passkey.userId,
      passkey.credentialId,
      passkey.publicKey,
      BigInt(passkey.signCount),
      passkey.name,
      new Date(atMs),
      atMost,
    ],
  )
  return rows.length > 0
}

/** Notes a use of a passkey; false when it was removed meanwhile, or its device has not counted on. */
export async function updatePasskeyUse(tx: Transaction, id: string, signCount: number, atMs: number): Promise<boolean> {
  const rows = await tx.query(
    `update passkeys set sign_count = $2::bigint, last_used_at = $3
     where id = $1 and (sign_count < $2::bigint or (sign_count = 0 and $2::bigint = 0)) returning id`,
    [id, BigInt(signCount), new Date(atMs)],
  )
  return rows.length > 0
}

/** Gives a passkey of the person another name; returns the one before. Null when the person has none of this id. */
export async function updatePasskeyName(
  tx: Transaction,
  userId: string,
  id: string,
  name: string,
): Promise<string | null> {
  const rows = await tx.query<{ before: string }>(
    `update passkeys p set name = $3
     from (select id, name from passkeys where id = $2 and user_id = $1 for update) known
     where p.id = known.id returning known.name as before`,
    [userId, id, name],
  )
  return rows[0]?.before ?? null
}

/** Removes all passkeys of a person. */
export async function deletePasskeys(tx: Transaction, userId: string): Promise<void> {
  await tx.query('delete from passkeys where user_id = $1', [userId])
}

/** Removes a passkey of the person; returns its name. Null when the person has none of this id. */
export async function deletePasskey(tx: Transaction, userId: string, id: string): Promise<string | null> {
  const rows = await tx.query<{ name: string }>('delete from passkeys where user_id = $1 and id = $2 returning name', [
    userId,
    id,
  ])
  return rows[0]?.name ?? null
}
