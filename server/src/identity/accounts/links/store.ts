import { arrayLiteral, type Queryable, type Transaction } from '../../../infra/postgres/database.ts'
import type { GivenLink, LinkTarget } from './target.ts'

/** Every statement on `account_links`. Secrets go in as their hashes. */

export interface LinkRow {
  readonly user_id: string | null
  readonly invitation_id: string | null
  readonly email: string | null
}

/** Inserts a link and removes older ones to the same place, so that only the newest works. */
export async function replaceLink(
  tx: Transaction,
  hash: Uint8Array,
  target: LinkTarget,
  nowMs: number,
  expiresAtMs: number,
): Promise<void> {
  const userId = 'userId' in target ? target.userId : null
  const invitationId = 'invitationId' in target ? target.invitationId : null
  const email = 'email' in target ? target.email : null
  await tx.query(
    `delete from account_links where purpose = $1
       and user_id is not distinct from $2::uuid and invitation_id is not distinct from $3::uuid
       and (user_id is not null or email is not distinct from $4::text)`,
    [target.purpose, userId, invitationId, email],
  )
  await tx.query(
    `insert into account_links (hash, purpose, user_id, invitation_id, email, created_at, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7)`,
    [hash, target.purpose, userId, invitationId, email, new Date(nowMs), new Date(expiresAtMs)],
  )
}

/** The link with this hash, unless it has expired. */
export async function selectLink(
  database: Queryable,
  hash: Uint8Array,
  purpose: LinkTarget['purpose'],
  nowMs: number,
): Promise<LinkRow | null> {
  const rows = await database.query<LinkRow>(
    'select user_id, invitation_id, email from account_links where hash = $1 and purpose = $2 and expires_at > $3',
    [hash, purpose, new Date(nowMs)],
  )
  return rows[0] ?? null
}

/** Uses a link up: of two requests that bring it at the same time one gets null. */
export async function deleteLink(
  tx: Transaction,
  hash: Uint8Array,
  purpose: LinkTarget['purpose'],
  nowMs: number,
): Promise<LinkRow | null> {
  const rows = await tx.query<LinkRow>(
    `delete from account_links where hash = $1 and purpose = $2 and expires_at > $3
     returning user_id, invitation_id, email`,
    [hash, purpose, new Date(nowMs)],
  )
  return rows[0] ?? null
}

/** Removes the links of a person. */
export async function deleteLinks(tx: Transaction, userId: string): Promise<void> {
  await tx.query('delete from account_links where user_id = $1', [userId])
}

/** The links that were given to a person: by the person's id, or to these addresses. */
export async function selectLinksOf(
  database: Queryable,
  userId: string,
  emails: readonly string[],
  atMost: number,
): Promise<GivenLink[]> {
  const rows = await database.query<{
    purpose: LinkTarget['purpose']
    email: string | null
    created_at: Date
    expires_at: Date
  }>(
    `select purpose, email, created_at, expires_at from account_links
     where user_id = $1 or email = any($2::text::text[]) order by created_at, hash limit $3::integer`,
    [userId, arrayLiteral(emails), atMost],
  )
  return rows.map(({ purpose, email, created_at: createdAt, expires_at: expiresAt }) => {
    return { purpose, email, createdAtMs: createdAt.getTime(), expiresAtMs: expiresAt.getTime() }
  })
}

/** Removes the links of a person, those to these addresses, and those of invitations to them. */
export async function deleteLinksOf(tx: Transaction, userId: string | null, emails: readonly string[]): Promise<void> {
  await tx.query(
    `delete from account_links where user_id = $1 or email = any($2::text::text[])
       or invitation_id in (select id from invitations where email = any($2::text::text[]))`,
    [userId, arrayLiteral(emails)],
  )
}

/** Removes at most `atMost` links that have expired; returns how many. */
export async function deleteExpiredLinks(database: Queryable, nowMs: number, atMost: number): Promise<number> {
  const rows = await database.query(
    `delete from account_links where hash in (
       select hash from account_links where expires_at <= $1 order by expires_at limit $2::integer
     ) returning purpose`,
    [new Date(nowMs), atMost],
  )
  return rows.length
}
