import type { Role } from '../../../http/principal.ts'
import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import type { OrganizationMember } from './member.ts'
import { insertMember, lockMembers, selectIsMember } from './store.ts'

/** Adds a member; false when the person is one already. */
export function addMember(
  tx: Transaction,
  member: Pick<OrganizationMember, 'id' | 'organizationId' | 'userId' | 'role'>,
  atMs: number,
): Promise<boolean> {
  return insertMember(tx, member, atMs)
}

/** Returns whether the person with this address is a member. */
export function isMember(database: Queryable, organizationId: string, email: string): Promise<boolean> {
  return selectIsMember(database, organizationId, email)
}

/** The role of a member now, which stays until the end of the transaction; `member` for one who was removed. */
export async function roleOf(tx: Transaction, organizationId: string, memberId: string): Promise<Role> {
  const locked = await lockMembers(tx, organizationId, [memberId, null])
  return locked.find(({ id }) => id === memberId)?.role ?? 'member'
}
