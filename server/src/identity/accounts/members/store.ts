import type { Role } from '../../../http/principal.ts'
import { arrayLiteral, type Queryable, type Transaction } from '../../../infra/postgres/database.ts'
import type { OrganizationMember, OwnMembership } from './member.ts'

/** Every statement on `members`. A member who was removed is found only by those that say so. */

interface MemberRow {
  readonly id: string
  readonly organization_id: string
  readonly user_id: string
  readonly name: string
  readonly email: string
  readonly role: Role
  readonly created_at: Date
}

const FROM = 'from members m join users u on u.id = m.user_id'
const COLUMNS = 'm.id, m.organization_id, m.user_id, u.name, u.email, m.role, m.created_at'

/** Adds a member; false when the person is one already. */
export async function insertMember(
  tx: Transaction,
  { id, organizationId, userId, role }: Pick<OrganizationMember, 'id' | 'organizationId' | 'userId' | 'role'>,
  atMs: number,
): Promise<boolean> {
  const rows = await tx.query(
    `insert into members (id, organization_id, user_id, role, created_at) values ($1, $2, $3, $4, $5)
     on conflict (organization_id, user_id) where removed_at is null do nothing returning id`,
    [id, organizationId, userId, role, new Date(atMs)],
  )
  return rows.length > 0
}

/** Returns at most `atMost` members of an organization, in the order of their ids, after `afterId`. */
export async function selectMembers(
  database: Queryable,
  organizationId: string,
  afterId: string | null,
  atMost: number,
): Promise<OrganizationMember[]> {
  const rows = await database.query<MemberRow>(
    `select ${COLUMNS} ${FROM} where m.organization_id = $1 and m.removed_at is null
       and ($2::uuid is null or m.id > $2::uuid) order by m.id limit $3::integer`,
    [organizationId, afterId, atMost],
  )
  return rows.map(fromRow)
}

/** Returns at most `atMost` memberships of a person, the oldest first. */
export async function selectMemberships(
  database: Queryable,
  userId: string,
  atMost: number,
): Promise<{ organizationId: string; organizationName: string; role: Role }[]> {
  const rows = await database.query<{ organization_id: string; name: string; role: Role }>(
    `select m.organization_id, o.name, m.role from members m join organizations o on o.id = m.organization_id
     where m.user_id = $1 and m.removed_at is null order by m.created_at, m.id limit $2::integer`,
    [userId, atMost],
  )
  return rows.map((row) => ({ organizationId: row.organization_id, organizationName: row.name, role: row.role }))
}

/** Returns at most `atMost` memberships of a person, ended ones too, in the order of their ids, after `afterId`. */
export async function selectOwnMemberships(
  database: Queryable,
  userId: string,
  afterId: string | null,
  atMost: number,
): Promise<OwnMembership[]> {
  const rows = await database.query<{
    id: string
    organization_id: string
    organization_name: string
    role: Role
    created_at: Date
    removed_at: Date | null
  }>(
    `select m.id, m.organization_id, o.name as organization_name, m.role, m.created_at, m.removed_at
     from members m join organizations o on o.id = m.organization_id
     where m.user_id = $1 and ($2::uuid is null or m.id > $2::uuid) order by m.id limit $3::integer`,
    [userId, afterId, atMost],
  )
  return rows.map((row) => ({
    id: row.id,
    organizationId: row.organization_id,
    organizationName: row.organization_name,
    role: row.role,
    createdAtMs: row.created_at.getTime(),
    removedAtMs: row.removed_at?.getTime() ?? null,
  }))
}

/** The memberships that a person has, in the order of their organizations. */
export async function selectPresentMemberships(
  tx: Transaction,
  userId: string,
): Promise<{ memberId: string; organizationId: string; organizationName: string }[]> {
  const rows = await tx.query<{ id: string; organization_id: string; name: string }>(
    `select m.id, m.organization_id, o.name from members m join organizations o on o.id = m.organization_id
     where m.user_id = $1 and m.removed_at is null order by m.organization_id`,
    [userId],
  )
  return rows.map((row) => ({ memberId: row.id, organizationId: row.organization_id, organizationName: row.name }))
}

/** Returns whether the person with this address is a member. */
export async function selectIsMember(database: Queryable, organizationId: string, email: string): Promise<boolean> {
  const rows = await database.query(
    `select 1 ${FROM} where m.organization_id = $1 and u.email = $2 and m.removed_at is null`,
    [organizationId, email],
  )
  return rows.length > 0
}

/** Returns whether a member is the only owner of the organization. */
export async function selectIsLastOwner(database: Queryable, id: string): Promise<boolean> {
  const rows = await database.query(
    `select 1 from members m where id = $1 and role = 'owner' and removed_at is null and not exists (
       select 1 from members o where o.organization_id = m.organization_id and o.id <> m.id
         and o.role = 'owner' and o.removed_at is null
     )`,
    [id],
  )
  return rows.length > 0
}

/**
 * The members of an organization with these ids and all of its owners, locked until the end of the transaction, so that of two
 * owners who leave at the same time the second sees that the first has left.
 */
export async function lockMembers(
  tx: Transaction,
  organizationId: string,
  ids: readonly [string, string | null],
): Promise<{ id: string; userId: string; role: Role }[]> {
  const rows = await tx.query<{ id: string; user_id: string; role: Role }>(
    `select id, user_id, role from members where organization_id = $1 and removed_at is null
       and (role = 'owner' or id in ($2::uuid, $3::uuid)) order by id for update`,
    [organizationId, ids[0], ids[1]],
  )
  return rows.map(({ id, user_id: userId, role }) => ({ id, userId, role }))
}

export async function updateRole(tx: Transaction, id: string, role: Role): Promise<void> {
  await tx.query('update members set role = $2 where id = $1', [id, role])
}

export async function updateRemoved(tx: Transaction, id: string, atMs: number): Promise<void> {
  await tx.query('update members set removed_at = $2 where id = $1', [id, new Date(atMs)])
}

/** All members of an organization, locked until the end of the transaction. */
export async function lockAllMembers(tx: Transaction, organizationId: string): Promise<{ id: string; role: Role }[]> {
  return tx.query<{ id: string; role: Role }>(
    'select id, role from members where organization_id = $1 and removed_at is null order by id for update',
    [organizationId],
  )
}

/** Removes all members of an organization, who are locked. */
export async function updateAllRemoved(tx: Transaction, organizationId: string, atMs: number): Promise<void> {
  await tx.query('update members set removed_at = $2 where organization_id = $1 and removed_at is null', [
    organizationId,
    new Date(atMs),
  ])
}

/**
 * Locks the operators among the members of an organization, so that nobody decides on two of their organizations at the same time;
 * returns whether one of them is a member of no other.
 */
export async function lockOperatorWithoutOther(tx: Transaction, organizationId: string): Promise<boolean> {
  const operators = await tx.query<{ id: string }>(
    `select id from users where is_operator and id in (
       select user_id from members where organization_id = $1 and removed_at is null
     ) order by id for no key update`,
    [organizationId],
  )
  const rows = await tx.query(
    `select 1 from unnest($2::text::uuid[]) as operator (id) where not exists (
       select 1 from members m where m.user_id = operator.id and m.removed_at is null and m.organization_id <> $1
     ) limit 1`,
    [organizationId, arrayLiteral(operators.map(({ id }) => id))],
  )
  return rows.length > 0
}

/** Returns at most `atMost` ids of the members that an organization ever had, in their order, after `afterId`. */
export async function selectMemberIds(
  database: Queryable,
  organizationId: string,
  afterId: string | null,
  atMost: number,
): Promise<string[]> {
  const rows = await database.query<{ id: string }>(
    `select id from members where organization_id = $1 and ($2::uuid is null or id > $2::uuid)
     order by id limit $3::integer`,
    [organizationId, afterId, atMost],
  )
  return rows.map(({ id }) => id)
}

function fromRow(row: MemberRow): OrganizationMember {
  const { id, organization_id: organizationId, user_id: userId, name, email, role } = row
  return { id, organizationId, userId, name, email, role, createdAtMs: row.created_at.getTime() }
}
