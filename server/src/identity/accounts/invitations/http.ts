import { z } from 'zod'
import { jsonAnswer, KEPT_NOTHING, keptJson } from '../../../http/jsonAnswer.ts'
import { showIdList } from '../../../http/list.ts'
import type { Prepare } from '../../../http/onceForKey.ts'
import type { Handle } from '../../../http/pipeline.ts'
import type { KeyOrSession } from '../../../http/principal.ts'
import { validate } from '../../../http/validate.ts'
import type { ClientAddress } from '../../../lib/clientAddress.ts'
import { refusal } from '../../../lib/errors.ts'
import { LIST_SHAPE } from '../../../lib/listPage.ts'
import { ok, refused } from '../../../lib/result.ts'
import { toTimestamp } from '../../../lib/time.ts'
import { actorOf } from '../../audit/actor.ts'
import { mayManage } from '../members/member.ts'
import { parseEmail } from '../people/person.ts'
import type { AttemptCounter } from '../secrets/attempts.ts'
import { type Invitation, invitationStateAt } from './invitation.ts'
import { type InvitationDependencies, invite, noRightToInvite, withdrawInvitation } from './invite.ts'
import { listInvitations } from './list.ts'

export interface InvitationHttpDependencies extends InvitationDependencies {
  readonly clientAddress: ClientAddress
  readonly attempts: Pick<AttemptCounter, 'invitation'>
  /** Jobs were enqueued and committed. */
  readonly onEnqueued: () => void
}

const role = z.enum(['owner', 'admin', 'member'])

export const invitationRequest = z
  .strictObject({ email: z.string().max(254), role: role.default('member') })
  .meta({ id: 'InvitationRequest' })

export const invitationEntry = z
  .object({
    id: z.string().meta({ format: 'uuid' }),
    email: z.string(),
    role,
    state: z.enum(['open', 'accepted', 'withdrawn', 'expired']),
    created_at: z.iso.datetime(),
    expires_at: z.iso.datetime(),
  })
  .meta({ id: 'Invitation' })

export const invitationPage = z
  .object({ data: z.array(invitationEntry), next_cursor: z.string().nullable() })
  .meta({ id: 'InvitationPage' })
export const invitationsQuery = z.object(LIST_SHAPE)

/** GET /invitations, of the management interface. */
export function showInvitations({ database, clock }: InvitationHttpDependencies): Handle<KeyOrSession> {
  return showIdList({
    name: 'invitations',
    query: invitationsQuery,
    find: ({ principal }, beforeId, limit) => listInvitations(database, principal.organizationId, beforeId, limit),
    toWire: (invitation) => toWire(invitation, clock.now()),
  })
}

/** POST /invitations, of the management interface. */
export function postInvitation(dependencies: InvitationHttpDependencies): Prepare<KeyOrSession> {
  const { clock, clientAddress, attempts, onEnqueued } = dependencies
  return (call) => {
    const checked = validate(invitationRequest, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    // A request that is refused anyway uses up none of the organization's invitations.
    const email = parseEmail(checked.value.email)
    if (!email.ok) return email
    const { organizationId, kind, id, newUntilMs } = call.principal
    const actingId = kind === 'session' ? id : null
    const mayInvite = mayManage(kind === 'session' ? call.principal.role : 'admin', checked.value.role)
    if (!mayInvite) return refused(noRightToInvite({ actingId }, 'admin'))
    const wanted = {
      email: email.value,
      role: checked.value.role,
      organizationId,
      actor: actorOf(clientAddress, call),
      actingId,
    }
    return ok(async (attempt) => {
      const isNew = newUntilMs !== null && clock.now() < newUntilMs
      const retryAfterSeconds = await attempts.invitation(organizationId, wanted.email, isNew)
      if (retryAfterSeconds !== null) return refusal('rate_limit_exceeded', TOO_OFTEN, { retryAfterSeconds })
      const invited = await invite(dependencies, wanted, async (made) =>
        attempt === null ? [] : attempt.keep(keptJson(toWire(made, clock.now()), 201)),
      )
      if (!invited.ok) return invited.refusal
      onEnqueued()
      return jsonAnswer(toWire(invited.value, clock.now()), 201)
    })
  }
}

const TOO_OFTEN =
  'Your organization invites too often, or invites this address again and again. Wait for the seconds in Retry-After, then try again.'

/** DELETE /invitations/{id}, of the management interface. */
export function deleteInvitation(dependencies: InvitationHttpDependencies): Prepare<KeyOrSession> {
  return (call) =>
    ok(async (attempt) => {
      const [id = ''] = call.parameters
      const { organizationId, kind, id: callerId } = call.principal
      const actor = actorOf(dependencies.clientAddress, call)
      const actingId = kind === 'session' ? callerId : null
      const keep = async () => (attempt === null ? [] : attempt.keep(KEPT_NOTHING))
      const withdrawn = await withdrawInvitation(dependencies, { organizationId, id, actor, actingId }, keep)
      return withdrawn.ok ? new Response(null, { status: 204 }) : withdrawn.refusal
    })
}

function toWire(invitation: Invitation, nowMs: number): z.infer<typeof invitationEntry> {
  const { id, email, role: invitedAs, createdAtMs, expiresAtMs } = invitation
  return {
    id,
    email,
    role: invitedAs,
    state: invitationStateAt(invitation, nowMs),
    created_at: toTimestamp(createdAtMs),
    expires_at: toTimestamp(expiresAtMs),
  }
}
