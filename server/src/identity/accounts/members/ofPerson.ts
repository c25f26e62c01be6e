/** All memberships of a person: what was and is, and how they end together. */

import type { Role } from '../../../http/principal.ts'
import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { type Refusal, Refused, refusal } from '../../../lib/errors.ts'
import type { Actor } from '../../audit/entry.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import { revokeKeysOfMember } from '../../keys/revoke.ts'
import type { MemberDependencies } from './change.ts'
import type { OwnMembership } from './member.ts'
import { lockMembers, selectOwnMemberships, selectPresentMemberships, updateRemoved } from './store.ts'

/** Lists at most `atMost` memberships of a person, ended ones too, in the order of their ids, after `afterId`. */
export function listOwnMemberships(
  database: Queryable,
  userId: string,
  afterId: string | null,
  atMost: number,
): Promise<OwnMembership[]> {
  return selectOwnMemberships(database, userId, afterId, atMost)
}

/** Names that a refusal tells. */
const NAMED_MOST = 5

function lastOwnerOf(names: readonly string[]): Refusal {
  const named = names.slice(0, NAMED_MOST).map((name) => `“${name}”`)
  const rest = names.length > NAMED_MOST ? [`${names.length - NAMED_MOST} more`] : []
  const message = `This account is the last owner of ${[...named, ...rest].join(', ')}. Make another member an owner there, or delete the organization, then try again.`
  return refusal('validation_failed', message)
}

/** A membership that is locked until the end of the transaction. */
export interface LockedMembership {
  readonly memberId: string
  readonly organizationId: string
  readonly organizationName: string
  readonly role: Role
  readonly isLastOwner: boolean
}

/** Locks the memberships of a person, whose organizations the transaction has locked. */
export async function lockMembershipsOf(tx: Transaction, userId: string): Promise<LockedMembership[]> {
  const locked: LockedMembership[] = []
  for (const membership of await selectPresentMemberships(tx, userId)) {
    const { organizationId, memberId } = membership
    const members = await lockMembers(tx, organizationId, [memberId, null])
    const own = members.find(({ id }) => id === memberId)
    if (own === undefined) continue
    const isLastOwner = own.role === 'owner' && !members.some(({ id, role }) => role === 'owner' && id !== memberId)
    locked.push({ ...membership, role: own.role, isLastOwner })
  }
  return locked
}

/** Returns whether these are all memberships that a person has. Nobody can add one while the person is locked for good. */
export async function areAllMemberships(
  tx: Transaction,
  userId: string,
  locked: readonly LockedMembership[],
): Promise<boolean> {
  const known = new Set(locked.map(({ memberId }) => memberId))
  return (await selectPresentMemberships(tx, userId)).every(({ memberId }) => known.has(memberId))
}

/**
 * Ends memberships in the transaction that has locked them: the keys of each are revoked in every process, and its open invitations
 * withdrawn. Returns how many memberships and keys have ended. Throws {@link Refused} (`validation_failed`) where one is of the last
 * owner of an organization.
 */
export async function endMemberships(
  tx: Transaction,
  { clock, random, endInvitations }: Omit<MemberDependencies, 'database'>,
  locked: readonly LockedMembership[],
  actor: Actor,
): Promise<{ memberships: number; keys: number }> {
  const last = locked.filter(({ isLastOwner }) => isLastOwner)
  if (last.length > 0) throw new Refused(lastOwnerOf(last.map(({ organizationName }) => organizationName)))
  const nowMs = clock.now()
  let keys = 0
  for (const { organizationId, memberId, role } of locked) {
    await updateRemoved(tx, memberId, nowMs)
    keys += await revokeKeysOfMember(tx, memberId, nowMs)
    await endInvitations(tx, nowMs, { organizationId, memberId, actor, role: null })
    const entry = { organizationId, actor, subjectId: memberId }
    await recordAuditEntry(tx, random, nowMs, { ...entry, action: 'member.removed', before: { role }, after: null })
  }
  return { memberships: locked.length, keys }
}
