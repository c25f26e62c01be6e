import type { Transaction } from '../../../infra/postgres/database.ts'
import { Refused, refusal } from '../../../lib/errors.ts'
import { lockAllMembers, lockOperatorWithoutOther, updateAllRemoved } from './store.ts'

const OWNERS_ONLY = refusal('insufficient_scope', 'Only an owner of the organization deletes it.')
const OF_OPERATOR = refusal(
  'validation_failed',
  'An operator of this server is a member of this organization alone, and could do nothing for the server any more. Invite that person to another organization first, or run "./tollgate operators remove EMAIL".',
)

/**
 * Locks the members of an organization, whose row is locked, until the end of the transaction; returns how many there are. Throws the
 * refusal where `ownerId` is given and is the member id of no owner, and where an operator of the installation is a member of no
 * other organization.
 */
export async function lockMembersToEnd(
  tx: Transaction,
  organizationId: string,
  ownerId: string | null,
): Promise<number> {
  const members = await lockAllMembers(tx, organizationId)
  if (ownerId !== null && !members.some(({ id, role }) => id === ownerId && role === 'owner'))
    throw new Refused(OWNERS_ONLY)
  if (await lockOperatorWithoutOther(tx, organizationId)) throw new Refused(OF_OPERATOR)
  return members.length
}

/** Removes the members of an organization, who are locked. */
export function removeMembersOf(tx: Transaction, organizationId: string, atMs: number): Promise<void> {
  return updateAllRemoved(tx, organizationId, atMs)
}
