import type { Role } from '../../../http/principal.ts'
import { arrayLiteral, type Queryable, type Transaction } from '../../../infra/postgres/database.ts'
import type { FoundInvitation, Invitation, NamedInvitation } from './invitation.ts'

/** Every statement on `invitations`. */

interface InvitationRow {
  readonly id: string
  readonly organization_id: string
  readonly email: string
  readonly role: Role
  readonly created_at: Date
  readonly expires_at: Date
  readonly accepted_at: Date | null
  readonly withdrawn_at: Date | null
}

const COLUMNS = 'id, organization_id, email, role, created_at, expires_at, accepted_at, withdrawn_at'

/**
 * Inserts an invitation. One to the same address that is still there must have been withdrawn before. `invitedBy` is a member;
 * null: a key of the organization.
 */
export async function insertInvitation(
  tx: Transaction,
  invitation: Invitation,
  invitedBy: string | null,
): Promise<void> {
  const { id, organizationId, email, role, createdAtMs, expiresAtMs } = invitation
  await tx.query(
    `insert into invitations (id, organization_id, email, role, created_at, expires_at, invited_by)
     values ($1, $2, $3, $4, $5, $6, $7)`,
    [id, organizationId, email, role, new Date(createdAtMs), new Date(expiresAtMs), invitedBy],
  )
}

/** Deletes all invitations of an organization, with their links and their addresses. */
export async function deleteInvitations(tx: Transaction, organizationId: string): Promise<void> {
  await tx.query('delete from invitations where organization_id = $1', [organizationId])
}

/** Withdraws what is open to an address; returns it. */
export async function withdrawOlder(
  tx: Transaction,
  organizationId: string,
  email: string,
  atMs: number,
): Promise<Invitation[]> {
  const rows = await tx.query<InvitationRow>(
    `update invitations set withdrawn_at = $3 where organization_id = $1 and email = $2
       and accepted_at is null and withdrawn_at is null returning ${COLUMNS}`,
    [organizationId, email, new Date(atMs)],
  )
  return rows.map(fromRow)
}

/** Returns how many are open. */
export async function countOpenInvitations(tx: Transaction, organizationId: string, nowMs: number): Promise<number> {
  const rows = await tx.query<{ count: bigint }>(
    `select count(*) from invitations where organization_id = $1
       and accepted_at is null and withdrawn_at is null and expires_at > $2`,
    [organizationId, new Date(nowMs)],
  )
  return Number(rows[0]?.count ?? 0)
}

/** The invitations of an organization before an id, the newest first. */
export async function selectInvitations(
  database: Queryable,
  organizationId: string,
  beforeId: string | null,
  atMost: number,
): Promise<Invitation[]> {
  const rows = await database.query<InvitationRow>(
    `select ${COLUMNS} from invitations where organization_id = $1 and ($2::uuid is null or id < $2::uuid)
     order by id desc limit $3::integer`,
    [organizationId, beforeId, atMost],
  )
  return rows.map(fromRow)
}

/** An invitation with the name of its organization and the person who invites. */
export async function selectInvitation(database: Queryable, id: string): Promise<FoundInvitation | null> {
  const rows = await database.query<
    InvitationRow & { organization_name: string; inviter_name: string | null; inviter_email: string | null }
  >(
    `select i.*, o.name as organization_name, u.name as inviter_name, u.email as inviter_email
     from invitations i join organizations o on o.id = i.organization_id
     left join members m on m.id = i.invited_by left join users u on u.id = m.user_id
     where i.id = $1`,
    [id],
  )
  const [row] = rows
  if (row === undefined) return null
  const { organization_name: organizationName, inviter_name: name, inviter_email: email } = row
  const inviter = name === null || email === null ? null : { name, email }
  return { invitation: fromRow(row), organizationName, inviter }
}

const NAMED =
  'select i.*, o.name as organization_name from invitations i join organizations o on o.id = i.organization_id'

/**
 * Returns at most `atMost` invitations to these addresses, in the order of their ids, after `afterId`. Those that somebody else has
 * accepted, who had the address before, are not among them: a membership begins at the instant at which its invitation is accepted.
 */
export async function selectInvitationsTo(
  database: Queryable,
  { userId, emails }: { readonly userId: string; readonly emails: readonly string[] },
  afterId: string | null,
  atMost: number,
): Promise<NamedInvitation[]> {
  const rows = await database.query<InvitationRow & { organization_name: string }>(
    `${NAMED} where i.email = any($1::text::text[]) and ($2::uuid is null or i.id > $2::uuid)
       and (i.accepted_at is null
         or exists (
           select 1 from members m
           where m.organization_id = i.organization_id and m.user_id = $4 and m.created_at = i.accepted_at))
     order by i.id limit $3::integer`,
    [arrayLiteral(emails), afterId, atMost, userId],
  )
  return rows.map((row) => ({ ...fromRow(row), organizationName: row.organization_name }))
}

/** The invitations that a person has sent as a member, in the same order. */
export async function selectInvitationsBy(
  database: Queryable,
  userId: string,
  afterId: string | null,
  atMost: number,
): Promise<NamedInvitation[]> {
  const rows = await database.query<InvitationRow & { organization_name: string }>(
    `${NAMED} where i.invited_by in (select id from members where user_id = $1)
       and ($2::uuid is null or i.id > $2::uuid) order by i.id limit $3::integer`,
    [userId, afterId, atMost],
  )
  return rows.map((row) => ({ ...fromRow(row), organizationName: row.organization_name }))
}

/** Removes the invitations to these addresses, whatever their state; returns their ids. */
export async function deleteInvitationsTo(tx: Transaction, emails: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    'delete from invitations where email = any($1::text::text[]) returning id',
    [arrayLiteral(emails)],
  )
  return rows.map(({ id }) => id)
}

/** Removes at most `atMost` invitations that expired before `beforeMs`, whatever became of them; returns how many. Their links go with them. */
export async function deleteOldInvitations(database: Queryable, beforeMs: number, atMost: number): Promise<number> {
  const rows = await database.query(
    `delete from invitations where id in (
       select id from invitations where expires_at < $1 order by expires_at limit $2::integer
     ) returning id`,
    [new Date(beforeMs), atMost],
  )
  return rows.length
}

/** Withdraws an open invitation; undefined where there is none of this id. */
export async function updateWithdrawn(
  tx: Transaction,
  organizationId: string,
  id: string,
  atMs: number,
): Promise<Invitation | undefined> {
  const rows = await tx.query<InvitationRow>(
    `update invitations set withdrawn_at = $3 where organization_id = $1 and id = $2
       and accepted_at is null and withdrawn_at is null returning ${COLUMNS}`,
    [organizationId, id, new Date(atMs)],
  )
  return rows[0] && fromRow(rows[0])
}

/** Withdraws what a member has invited that is open, of these roles; returns it. */
export async function withdrawByMember(
  tx: Transaction,
  memberId: string,
  roles: readonly Role[],
  atMs: number,
): Promise<Invitation[]> {
  const rows = await tx.query<InvitationRow>(
    `update invitations set withdrawn_at = $3 where invited_by = $1 and role = any($2::text::text[])
       and accepted_at is null and withdrawn_at is null returning ${COLUMNS}`,
    [memberId, arrayLiteral(roles), new Date(atMs)],
  )
  return rows.map(fromRow)
}

/** Marks an invitation as accepted if it is still open; false where it is not. */
export async function updateAccepted(tx: Transaction, id: string, atMs: number): Promise<boolean> {
  const rows = await tx.query(
    `update invitations set accepted_at = $2 where id = $1
       and accepted_at is null and withdrawn_at is null and expires_at > $2 returning id`,
    [id, new Date(atMs)],
  )
  return rows.length > 0
}

function fromRow(row: InvitationRow): Invitation {
  return {
    id: row.id,
    organizationId: row.organization_id,
    email: row.email,
    role: row.role,
    createdAtMs: row.created_at.getTime(),
    expiresAtMs: row.expires_at.getTime(),
    acceptedAtMs: row.accepted_at?.getTime() ?? null,
    withdrawnAtMs: row.withdrawn_at?.getTime() ?? null,
  }
}
