import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import type { Identity, LinkedIdentity, StoredIdentity } from './identity.ts'

/** Every statement on `linked_identities`. */

/** Inserts a link; false when the identity is somebody's already, or the person has one of this issuer. */
export async function insertIdentity(
  tx: Transaction,
  {
    id,
    userId,
    issuer,
    subject,
  }: Pick<Identity, 'issuer' | 'subject'> & { readonly id: string; readonly userId: string },
  atMs: number,
): Promise<boolean> {
  const rows = await tx.query(
    `insert into linked_identities (id, user_id, issuer, subject, created_at) values ($1, $2, $3, $4, $5)
     on conflict do nothing returning id`,
    [id, userId, issuer, subject, new Date(atMs)],
  )
  return rows.length > 0
}

/** Notes a sign-in by an identity; returns its person. Null when it is linked to nobody. */
export async function updateIdentityUse(
  tx: Transaction,
  { issuer, subject }: Pick<Identity, 'issuer' | 'subject'>,
  atMs: number,
): Promise<string | null> {
  const rows = await tx.query<{ user_id: string }>(
    'update linked_identities set last_used_at = $3 where issuer = $1 and subject = $2 returning user_id',
    [issuer, subject, new Date(atMs)],
  )
  return rows[0]?.user_id ?? null
}

/** The person's identities at these issuers. */
export async function selectIdentities(
  database: Queryable,
  userId: string,
  issuers: readonly string[],
): Promise<LinkedIdentity[]> {
  const rows = await database.query<{ issuer: string; created_at: Date; last_used_at: Date | null }>(
    `select issuer, created_at, last_used_at from linked_identities
     where user_id = $1 and issuer in (select jsonb_array_elements_text($2::text::jsonb))`,
    [userId, JSON.stringify(issuers)],
  )
  return rows.map((row) => ({
    issuer: row.issuer,
    createdAtMs: row.created_at.getTime(),
    lastUsedAtMs: row.last_used_at?.getTime() ?? null,
  }))
}

/**
 * Returns at most `atMost` identities of a person, in the order of their ids, after `afterId`; those of providers that the settings
 * name no more too.
 */
export async function selectStoredIdentities(
  database: Queryable,
  userId: string,
  afterId: string | null,
  atMost: number,
): Promise<StoredIdentity[]> {
  const rows = await database.query<{
    id: string
    issuer: string
    subject: string
    created_at: Date
    last_used_at: Date | null
  }>(
    `select id, issuer, subject, created_at, last_used_at from linked_identities
     where user_id = $1 and ($2::uuid is null or id > $2::uuid) order by id limit $3::integer`,
    [userId, afterId, atMost],
  )
  return rows.map(({ id, issuer, subject, created_at: createdAt, last_used_at: usedAt }) => {
    return { id, issuer, subject, createdAtMs: createdAt.getTime(), lastUsedAtMs: usedAt?.getTime() ?? null }
  })
}

/** Removes all identities of a person. */
export async function deleteIdentities(tx: Transaction, userId: string): Promise<void> {
  await tx.query('delete from linked_identities where user_id = $1', [userId])
}

/** Removes the person's identity at an issuer; returns the id of its row. Null when the person has none there. */
export async function deleteIdentity(tx: Transaction, userId: string, issuer: string): Promise<string | null> {
  const rows = await tx.query<{ id: string }>(
    'delete from linked_identities where user_id = $1 and issuer = $2 returning id',
    [userId, issuer],
  )
  return rows[0]?.id ?? null
}
