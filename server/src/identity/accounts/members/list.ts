import type { Role } from '../../../http/principal.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import type { OrganizationMember } from './member.ts'
import { selectIsLastOwner, selectMemberIds, selectMembers, selectMemberships } from './store.ts'

/** Lists the members of an organization behind an id, in the order of their ids, so many at most. */
export function listMembers(
  database: Queryable,
  organizationId: string,
  afterId: string | null,
  atMost: number,
): Promise<OrganizationMember[]> {
  return selectMembers(database, organizationId, afterId, atMost)
}

/** Lists the organizations of a person, the oldest membership first, so many at most. */
export function listMemberships(
  database: Queryable,
  userId: string,
  atMost: number,
): Promise<{ organizationId: string; organizationName: string; role: Role }[]> {
  return selectMemberships(database, userId, atMost)
}

/** Returns whether a member is the only owner of the organization, who can't leave it. */
export function isLastOwner(database: Queryable, memberId: string): Promise<boolean> {
  return selectIsLastOwner(database, memberId)
}

/** The ids of all members that an organization ever had behind an id, in their order, so many at most. */
export function listMemberIds(
  database: Queryable,
  organizationId: string,
  afterId: string | null,
  atMost: number,
): Promise<string[]> {
  return selectMemberIds(database, organizationId, afterId, atMost)
}
