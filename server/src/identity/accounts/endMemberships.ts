import type { Transaction } from '../../infra/postgres/database.ts'
import { endDeviceLoginsOf } from './device/end.ts'
import { eraseInvitationsOf } from './invitations/erase.ts'
import { removeMembersOf } from './members/end.ts'
import { endSessionsOf } from './sessions/own.ts'

/**
 * Removes the members of an organization that is deleted, ends the sessions of those who are members of no other, and deletes its
 * invitations and the device logins of its members. The people stay. The members are locked (`members/end.ts`), and their keys revoked
 * before: locks are taken in this order.
 */
export async function endMembershipsOf(tx: Transaction, organizationId: string, atMs: number): Promise<void> {
  await removeMembersOf(tx, organizationId, atMs)
  await eraseInvitationsOf(tx, organizationId)
  await endSessionsOf(tx, organizationId)
  await endDeviceLoginsOf(tx, organizationId)
}
