import type { Role } from '../../../http/principal.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import type { OrganizationMember } from './member.ts'
import { selectIsLastOwner, selectMemberIds, selectMembers, selectMemberships } from './store.ts'

/** Lists at most `atMost` members of an organization, in the order of their ids, after `afterId`. */
export function listMembers(
  database: Queryable,
  organizationId: string,
  afterId: string | null,
  atMost: number,
): Promise<OrganizationMember[]> {
  return selectMembers(database, organizationId, afterId, atMost)
}

/** Lists at most `atMost` organizations of a person, the oldest membership first. */
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

/** Lists at most `atMost` ids of the members that an organization ever had, in their order, after `afterId`. */
export function listMemberIds(
  database: Queryable,
  organizationId: string,
  afterId: string | null,
  atMost: number,
): Promise<string[]> {
  return selectMemberIds(database, organizationId, afterId, atMost)
}
