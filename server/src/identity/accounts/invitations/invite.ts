import { NO_ADMIN, ROLES, type Role } from '../../../http/principal.ts'
import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import { type Refusal, Refused, refusal } from '../../../lib/errors.ts'
import { isUuid, type RandomBytes, uuidV7 } from '../../../lib/ids.ts'
import { type Result, refused } from '../../../lib/result.ts'
import type { Clock } from '../../../lib/time.ts'
import { countChange } from '../../audit/budget.ts'
import type { Actor, NewAuditEntry } from '../../audit/entry.ts'
import { inTransaction, type Keep } from '../../audit/inTransaction.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import { findMemberOfKey } from '../../keys/list.ts'
import { lockOrganization } from '../../organizations/remove.ts'
import { LINK_MS } from '../links/link.ts'
import { enqueueLinkMail } from '../links/mailJob.ts'
import { isMember, roleOf } from '../members/add.ts'
import { mayManage } from '../members/member.ts'
import type { Invitation } from './invitation.ts'
import { countOpenInvitations, insertInvitation, updateWithdrawn, withdrawByMember, withdrawOlder } from './store.ts'

/** Invitations of an organization that are open at once: each is a mail to somebody who may not want it. */
const OPEN_MOST = 100

export interface InvitationDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  /** True when links can be sent: there is a mail server, or the server is on a loopback address. */
  readonly sendsLinks: boolean
}

export interface NewInvitation {
  readonly organizationId: string
  /** As `parseEmail` gives it. */
  readonly email: string
  readonly role: Role
  readonly actor: Actor
  /** The member that invites; null: an admin's key, which may do what an admin may. */
  readonly actingId: string | null
}

const NO_MAIL = refusal(
  'validation_failed',
  'This server sends no mail, so nobody can be invited. The operator can set a mail server in the settings under "smtp".',
)
const MEMBER_ALREADY = refusal('validation_failed', 'A member of the organization has this address already.', {
  param: 'email',
})
const TOO_MANY = refusal(
  'rate_limit_exceeded',
  `The organization has ${OPEN_MOST} open invitations, the most that one may have. Withdraw one first.`,
  { retryAfterSeconds: 60 },
)
const OWNERS_ONLY = refusal(
  'insufficient_scope',
  'Only an owner of the organization invites an owner, and withdraws or replaces the invitation of one.',
)
const NO_KEYS = refusal(
  'insufficient_scope',
  "Only an owner who is signed in can invite an owner, or withdraw or replace such an invitation. API keys can't, not even an owner's.",
)
const NO_INVITATION = refusal(
  'not_found',
  'There is no open invitation of this id; GET /manage/v1/invitations lists them.',
)

/**
 * Invites an address, and withdraws what was open to it. Whether the address has an account elsewhere makes no difference. Refused beyond
 * the organization's budget of changes too (K7).
 */
export async function invite(
  { database, clock, random, sendsLinks }: InvitationDependencies,
  wanted: NewInvitation,
  keep: Keep<Invitation>,
): Promise<Result<Invitation>> {
  if (!sendsLinks) return refused(NO_MAIL)
  const { organizationId, email, role, actor } = wanted
  return inTransaction(
    database,
    organizationId,
    async (tx) => {
      // Invitations to one address at the same time come one after another.
      await lockOrganization(tx, organizationId)
      const { invitedBy, actingRole } = await actingIn(tx, wanted)
      if (!mayManage(actingRole, role)) throw new Refused(noRightToInvite(wanted, actingRole))
      if (await isMember(tx, organizationId, email)) throw new Refused(MEMBER_ALREADY)
      const nowMs = clock.now()
      const withdrawn = await withdrawOlder(tx, organizationId, email, nowMs)
      if (withdrawn.some((older) => !mayManage(actingRole, older.role)))
        throw new Refused(noRightToInvite(wanted, actingRole))
      if ((await countOpenInvitations(tx, organizationId, nowMs)) >= OPEN_MOST) throw new Refused(TOO_MANY)
      await countChange(tx, organizationId, nowMs)
      for (const older of withdrawn) await recordAuditEntry(tx, random, nowMs, withdrawal(organizationId, actor, older))
      const invitation: Invitation = {
        id: uuidV7(nowMs, random),
        organizationId,
        email,
        role,
        createdAtMs: nowMs,
        expiresAtMs: nowMs + LINK_MS.invitation,
        acceptedAtMs: null,
        withdrawnAtMs: null,
      }
      await insertInvitation(tx, invitation, invitedBy)
      await enqueueLinkMail(tx, organizationId, { purpose: 'invitation', invitationId: invitation.id }, nowMs)
      await recordAuditEntry(tx, random, clock.now(), {
        organizationId,
        actor,
        action: 'invitation.created',
        subjectId: invitation.id,
        before: null,
        after: { email, role },
      })
      return invitation
    },
    keep,
  )
}

/**
 * The member that acts, by itself or by its key, and the role that counts now. An admin's key does what an admin may, and nothing
 * once its member is none.
 */
async function actingIn(
  tx: Transaction,
  { organizationId, actor, actingId }: Pick<NewInvitation, 'organizationId' | 'actor' | 'actingId'>,
): Promise<{ readonly invitedBy: string | null; readonly actingRole: Role }> {
  const invitedBy = actingId ?? (actor.id === null ? null : await findMemberOfKey(tx, actor.id))
  if (invitedBy === null) return { invitedBy, actingRole: 'admin' }
  const role = await roleOf(tx, organizationId, invitedBy)
  return { invitedBy, actingRole: actingId === null && role === 'owner' ? 'admin' : role }
}

/** Says why an acting member or key whose role is `role` may not invite, withdraw or replace. */
export function noRightToInvite({ actingId }: Pick<NewInvitation, 'actingId'>, role: Role): Refusal {
  if (role === 'member') return NO_ADMIN
  return actingId === null ? NO_KEYS : OWNERS_ONLY
}

/** A member whose right to invite has changed. */
export interface InvitingMember {
  readonly organizationId: string
  readonly memberId: string
  /** The role from now on; null: the member is removed. */
  readonly role: Role | null
  readonly actor: Actor
}

/** Withdraws the open invitations that a member may not make any more, in the transaction that changes the member. */
export async function endInvitationsOf(
  tx: Transaction,
  random: RandomBytes,
  nowMs: number,
  { organizationId, memberId, role, actor }: InvitingMember,
): Promise<void> {
  const ended = ROLES.filter((each) => role === null || !mayManage(role, each))
  for (const invitation of await withdrawByMember(tx, memberId, ended, nowMs))
    await recordAuditEntry(tx, random, nowMs, withdrawal(organizationId, actor, invitation))
}

function withdrawal(organizationId: string, actor: Actor, { id, email, role }: Invitation): NewAuditEntry {
  return {
    organizationId,
    actor,
    action: 'invitation.withdrawn',
    subjectId: id,
    before: { email, role },
    after: null,
  }
}

/** Withdraws an open invitation. Refused when the organization has none of this id (`not_found`), and where only an owner may. */
export async function withdrawInvitation(
  { database, clock, random }: Omit<InvitationDependencies, 'sendsLinks'>,
  { id, ...acting }: Pick<NewInvitation, 'organizationId' | 'actor' | 'actingId'> & { readonly id: string },
  keep: Keep<null>,
): Promise<Result<null>> {
  if (!isUuid(id)) return refused(NO_INVITATION)
  const { organizationId, actor } = acting
  return inTransaction(
    database,
    organizationId,
    async (tx) => {
      const nowMs = clock.now()
      await lockOrganization(tx, organizationId)
      const { actingRole } = await actingIn(tx, acting)
      const withdrawn = await updateWithdrawn(tx, organizationId, id, nowMs)
      if (withdrawn === undefined) throw new Refused(NO_INVITATION)
      if (!mayManage(actingRole, withdrawn.role)) throw new Refused(noRightToInvite(acting, actingRole))
      await recordAuditEntry(tx, random, nowMs, withdrawal(organizationId, actor, withdrawn))
      return null
    },
    keep,
  )
}
