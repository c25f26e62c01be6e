import { isAbove, NO_ADMIN, type Role } from '../../../http/principal.ts'
import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import { type Refusal, Refused, refusal } from '../../../lib/errors.ts'
import { isUuid, type RandomBytes } from '../../../lib/ids.ts'
import { type Result, refused } from '../../../lib/result.ts'
import type { Clock } from '../../../lib/time.ts'
import { countChange } from '../../audit/budget.ts'
import type { Actor } from '../../audit/entry.ts'
import { inTransaction, type Keep } from '../../audit/inTransaction.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import { reconsiderKeysOfMember } from '../../keys/reconsider.ts'
import { revokeKeysOfMember } from '../../keys/revoke.ts'
import { endSessionsActingFor } from '../sessions/own.ts'
import { mayManage } from './member.ts'
import { lockMembers, updateRemoved, updateRole } from './store.ts'

export interface MemberDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  /** Withdraws open invitations that a member may not make any more. `role`: from now on; null: the member is removed. */
  readonly endInvitations: (
    tx: Transaction,
    nowMs: number,
    member: Pick<MemberChange, 'organizationId' | 'memberId' | 'actor'> & { readonly role: Role | null },
  ) => Promise<void>
}

/** A change of a member: the organization, the member, and the person or key that makes the change. */
export interface MemberChange {
  readonly organizationId: string
  readonly memberId: string
  readonly actor: Actor
  /** The member that acts; null: an admin's key, which may do what an admin may. */
  readonly actingId: string | null
}

const NO_MEMBER = refusal('not_found', 'There is no such member; GET /manage/v1/members lists them.')
const LAST_OWNER = refusal(
  'validation_failed',
  'This is the last owner of the organization. Make another member an owner first.',
)
const OWNERS_ONLY = refusal(
  'insufficient_scope',
  'Only an owner of the organization makes, changes and removes owners.',
)
const NO_KEYS = refusal(
  'insufficient_scope',
  "Only an owner who is signed in can make, change or remove owners. API keys can't, not even an owner's.",
)

/**
 * Gives a member another role. The rights of the member's keys follow at once in every process, and open invitations
 * end that the member may not make any more. Refused when there is no such member, when the acting one's role does
 * not allow it (by the role of the instant), for the last owner, and beyond the organization's budget of changes (K7) where the
 * role is a higher one.
 */
export function changeRole(
  { database, clock, random, endInvitations }: MemberDependencies,
  change: MemberChange,
  role: Role,
  keep: Keep<{ role: Role }>,
): Promise<Result<{ role: Role }>> {
  if (!isUuid(change.memberId)) return Promise.resolve(refused(NO_MEMBER))
  return inTransaction(
    database,
    change.organizationId,
    async (tx) => {
      const member = await lockChanged(tx, change)
      if (!mayManage(member.actingRole, member.role) || !mayManage(member.actingRole, role))
        throw new Refused(noRight(change, member.actingRole))
      if (member.isLastOwner && role !== 'owner') throw new Refused(LAST_OWNER)
      if (role === member.role) return { role }
      const nowMs = clock.now()
      // Before the rights of the member's keys change: one of them may be the key that asks.
      await endInvitations(tx, nowMs, { ...change, role })
      if (isAbove(role, member.role)) await countChange(tx, change.organizationId, nowMs)
      await recordAuditEntry(tx, random, clock.now(), {
        organizationId: change.organizationId,
        actor: change.actor,
        action: 'member.role_changed',
        subjectId: change.memberId,
        before: { role: member.role },
        after: { role },
      })
      await updateRole(tx, change.memberId, role)
      await reconsiderKeysOfMember(tx, change.memberId, nowMs)
      return { role }
    },
    keep,
  )
}

/**
 * Removes a member, who may be the acting one. The member's keys are revoked, its open invitations withdrawn, and the person's
 * sessions that act for the organization end, in every process. Those that act for another go on.
 * Refused as {@link changeRole}.
 */
export function removeMember(
  { database, clock, random, endInvitations }: MemberDependencies,
  change: MemberChange,
  keep: Keep<null>,
): Promise<Result<null>> {
  if (!isUuid(change.memberId)) return Promise.resolve(refused(NO_MEMBER))
  return inTransaction(
    database,
    change.organizationId,
    async (tx) => {
      const member = await lockChanged(tx, change)
      const isOneself = change.actingId === change.memberId
      if (!isOneself && !mayManage(member.actingRole, member.role))
        throw new Refused(noRight(change, member.actingRole))
      if (member.isLastOwner) throw new Refused(LAST_OWNER)
      const nowMs = clock.now()
      // Before the member's keys end: one of them may be the key that asks.
      await endInvitations(tx, nowMs, { ...change, role: null })
      await recordAuditEntry(tx, random, nowMs, {
        organizationId: change.organizationId,
        actor: change.actor,
        action: 'member.removed',
        subjectId: change.memberId,
        before: { role: member.role },
        after: null,
      })
      await endSessionsActingFor(tx, member.userId, change.organizationId)
      await updateRemoved(tx, change.memberId, nowMs)
      await revokeKeysOfMember(tx, change.memberId, nowMs)
      return null
    },
    keep,
  )
}

function noRight({ actingId }: MemberChange, role: Role): Refusal {
  if (actingId === null) return NO_KEYS
  return role === 'member' ? NO_ADMIN : OWNERS_ONLY
}

/** The member that is changed, with the roles of the instant. */
async function lockChanged(tx: Transaction, { organizationId, memberId, actingId }: MemberChange) {
  const locked = await lockMembers(tx, organizationId, [memberId, actingId])
  const member = locked.find(({ id }) => id === memberId)
  if (member === undefined) throw new Refused(NO_MEMBER)
  const acting = locked.find(({ id }) => id === actingId)
  const isLastOwner = member.role === 'owner' && !locked.some(({ id, role }) => role === 'owner' && id !== memberId)
  const actingRole: Role = actingId === null ? 'admin' : (acting?.role ?? 'member')
  return { ...member, isLastOwner, actingRole }
}
