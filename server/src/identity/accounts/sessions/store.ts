import type { Role } from '../../../http/principal.ts'
import { arrayLiteral, type Queryable, type Transaction } from '../../../infra/postgres/database.ts'
import { NEW_ACCOUNT_DAYS } from '../../../lib/newAccount.ts'
import type { FoundSession, ListedSession } from './session.ts'

/** Every statement on `sessions` but those of the package. Tokens go in as their hashes. */

interface SessionRow {
  readonly token: string
  readonly id: string
  readonly created_at: Date
  readonly expires_at: Date
  readonly user_id: string
  readonly name: string
  readonly email: string
  readonly is_operator: boolean
  readonly member_id: string | null
  readonly organization_id: string
  readonly organization_name: string
  readonly role: Role
  readonly new_until: Date | null
}

/** The membership that a session `s` acts by: that of the organization that its person chose, else the oldest. */
const MEMBERSHIP = `select id, organization_id, role from members
       where user_id = s.user_id and removed_at is null
       order by organization_id = s.organization_id desc nulls last, created_at, id limit 1`

/** The sessions with these tokens, by token, unless they have expired, with the memberships that they act by. */
export async function selectSessionsByToken(
  database: Queryable,
  tokenHashes: readonly string[],
  nowMs: number,
): Promise<Map<string, FoundSession>> {
  const rows = await database.query<SessionRow>(
    `select s.token, s.id, s.created_at, s.expires_at, u.id as user_id, u.name, u.email, u.is_operator,
       m.id as member_id, m.organization_id, m.role, o.name as organization_name,
       case when o.standing = 'new' and o.first_paid_at is null
         then o.created_at + interval '${NEW_ACCOUNT_DAYS} days' end as new_until
     from sessions s join users u on u.id = s.user_id
     left join lateral (${MEMBERSHIP}) m on true
     left join organizations o on o.id = m.organization_id
     where s.token = any($1::text::text[]) and s.expires_at > $2`,
    [arrayLiteral(tokenHashes), new Date(nowMs)],
  )
  return new Map(rows.map((row) => [row.token, fromRow(row)]))
}

function fromRow(row: SessionRow): FoundSession {
  const { user_id: id, name, email, is_operator: isOperator } = row
  return {
    id: row.id,
    person: { id, name, email, isOperator },
    createdAtMs: row.created_at.getTime(),
    expiresAtMs: row.expires_at.getTime(),
    membership:
      row.member_id === null
        ? null
        : {
            memberId: row.member_id,
            organizationId: row.organization_id,
            organizationName: row.organization_name,
            role: row.role,
            newUntilMs: row.new_until?.getTime() ?? null,
          },
  }
}

/** Returns at most `atMost` sessions of a person that have not expired, the newest first, from the one after `before` on. */
export async function selectSessions(
  database: Queryable,
  userId: string,
  nowMs: number,
  before: { readonly createdAtMs: number; readonly id: string } | null,
  atMost: number,
): Promise<ListedSession[]> {
  const rows = await database.query<{
    id: string
    created_at: Date
    expires_at: Date
    ip_address: string | null
    user_agent: string | null
  }>(
    `select id, created_at, expires_at, ip_address, user_agent from sessions
     where user_id = $1 and expires_at > $2
       and ($3::timestamptz is null or (date_trunc('milliseconds', created_at), id) < ($3::timestamptz, $4::uuid))
     order by date_trunc('milliseconds', created_at) desc, id desc limit $5::integer`,
    [userId, new Date(nowMs), before && new Date(before.createdAtMs), before?.id ?? null, atMost],
  )
  return rows.map((row) => ({
    id: row.id,
    createdAtMs: row.created_at.getTime(),
    expiresAtMs: row.expires_at.getTime(),
    address: row.ip_address,
    userAgent: row.user_agent,
  }))
}

/** Inserts a session that was begun without a password. */
export async function insertSession(
  tx: Transaction,
  session: ListedSession & { readonly tokenHash: string; readonly userId: string },
): Promise<void> {
  await tx.query(
    `insert into sessions (id, token, user_id, created_at, updated_at, expires_at, ip_address, user_agent)
     values ($1, $2, $3, $4, $4, $5, $6, $7)`,
    [
      session.id,
      session.tokenHash,
      session.userId,
      new Date(session.createdAtMs),
      new Date(session.expiresAtMs),
      session.address,
      session.userAgent,
    ],
  )
}

/** Ends one session of a person; false when the person has none of this id. */
export async function deleteSession(database: Queryable, userId: string, id: string): Promise<boolean> {
  const rows = await database.query('delete from sessions where user_id = $1 and id = $2 returning id', [userId, id])
  return rows.length > 0
}

/** Ends the session with this token. */
export async function deleteSessionByToken(database: Queryable, tokenHash: string): Promise<void> {
  await database.query('delete from sessions where token = $1', [tokenHash])
}

/** Ends the sessions of a person, all but one where that is named. */
export async function deleteSessions(database: Queryable, userId: string, keptId: string | null): Promise<void> {
  await database.query('delete from sessions where user_id = $1 and ($2::uuid is null or id <> $2::uuid)', [
    userId,
    keptId,
  ])
}

/** Ends the sessions of a person that act for an organization, of which the person still is a member. */
export async function deleteSessionsActingFor(tx: Transaction, userId: string, organizationId: string): Promise<void> {
  await tx.query(
    `delete from sessions s where s.user_id = $1 and (select m.organization_id from (${MEMBERSHIP}) m) = $2::uuid`,
    [userId, organizationId],
  )
}

/**
 * Has a session act for an organization in which its person is a member; false where the person is none. It waits for a removal of the
 * member that is under way, so that the removal ends the session, or the session does not change.
 */
export async function updateSessionOrganization(
  database: Queryable,
  session: { readonly id: string; readonly userId: string },
  organizationId: string,
  atMs: number,
): Promise<boolean> {
  const rows = await database.query(
    `update sessions set organization_id = $3, updated_at = $4 where id = $1 and user_id = $2 and exists (
       select 1 from members where user_id = $2 and organization_id = $3 and removed_at is null for share
     ) returning id`,
    [session.id, session.userId, organizationId, new Date(atMs)],
  )
  return rows.length > 0
}

/** Removes at most `atMost` sessions that have expired; returns how many. */
export async function deleteExpiredSessions(database: Queryable, nowMs: number, atMost: number): Promise<number> {
  const rows = await database.query(
    `delete from sessions where id in (select id from sessions where expires_at <= $1 order by expires_at limit $2::integer)
     returning id`,
    [new Date(nowMs), atMost],
  )
  return rows.length
}

/**
 * Ends the sessions of people who were members of an organization and are members of none any more. Sessions that act for it act for
 * another organization of their person from then on.
 */
export async function deleteSessionsOf(tx: Transaction, organizationId: string): Promise<void> {
  await tx.query(
    `delete from sessions s where user_id in (select user_id from members where organization_id = $1)
       and not exists (select 1 from members m where m.user_id = s.user_id and m.removed_at is null)`,
    [organizationId],
  )
  await tx.query('update sessions set organization_id = null where organization_id = $1', [organizationId])
}
