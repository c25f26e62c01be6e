import { z } from 'zod'
import { jsonAnswer, KEPT_NOTHING, keptJson } from '../../../http/jsonAnswer.ts'
import { showIdList } from '../../../http/list.ts'
import type { Prepare } from '../../../http/onceForKey.ts'
import type { Handle, RouteRequest } from '../../../http/pipeline.ts'
import type { KeyOrSession } from '../../../http/principal.ts'
import { validate } from '../../../http/validate.ts'
import type { ClientAddress } from '../../../lib/clientAddress.ts'
import { LIST_SHAPE } from '../../../lib/listPage.ts'
import { ok } from '../../../lib/result.ts'
import { toTimestamp } from '../../../lib/time.ts'
import { actorOf } from '../../audit/actor.ts'
import { changeRole, type MemberChange, type MemberDependencies, removeMember } from './change.ts'
import { listMembers } from './list.ts'
import type { OrganizationMember } from './member.ts'

export interface MemberHttpDependencies extends MemberDependencies {
  readonly clientAddress: ClientAddress
}

const roleField = z.enum(['owner', 'admin', 'member'])

const memberEntry = z
  .object({
    id: z.string().meta({ format: 'uuid' }),
    user_id: z.string().meta({ format: 'uuid' }),
    name: z.string(),
    email: z.string(),
    role: roleField,
    created_at: z.iso.datetime(),
  })
  .meta({ id: 'Member' })

export const memberPage = z
  .object({ data: z.array(memberEntry), next_cursor: z.string().nullable() })
  .meta({ id: 'MemberPage' })
export const membersQuery = z.object(LIST_SHAPE)
export const memberChange = z.strictObject({ role: roleField }).meta({ id: 'MemberChange' })
export const changedMember = z
  .object({ id: z.string().meta({ format: 'uuid' }), role: roleField })
  .meta({ id: 'ChangedMember' })

/** GET /members, of the management interface. */
export function showMembers({ database }: MemberHttpDependencies): Handle<KeyOrSession> {
  return showIdList({
    name: 'members',
    query: membersQuery,
    find: ({ principal }, afterId, limit) => listMembers(database, principal.organizationId, afterId, limit),
    toWire,
  })
}

function toWire({ id, userId, name, email, role, createdAtMs }: OrganizationMember): z.infer<typeof memberEntry> {
  return { id, user_id: userId, name, email, role, created_at: toTimestamp(createdAtMs) }
}

/** PATCH /members/{id}, of the management interface. */
export function patchMember(dependencies: MemberHttpDependencies): Prepare<KeyOrSession> {
  return (call) => {
    const checked = validate(memberChange, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    const { role } = checked.value
    const change = changeOf(dependencies, call)
    const body: z.infer<typeof changedMember> = { id: change.memberId, role }
    return ok(async (attempt) => {
      const keep = async () => (attempt === null ? [] : attempt.keep(keptJson(body, 200)))
      const changed = await changeRole(dependencies, change, role, keep)
      return changed.ok ? jsonAnswer(body) : changed.refusal
    })
  }
}

/** DELETE /members/{id}, of the management interface. */
export function deleteMember(dependencies: MemberHttpDependencies): Prepare<KeyOrSession> {
  return (call) =>
    ok(async (attempt) => {
      const keep = async () => (attempt === null ? [] : attempt.keep(KEPT_NOTHING))
      const removed = await removeMember(dependencies, changeOf(dependencies, call), keep)
      return removed.ok ? new Response(null, { status: 204 }) : removed.refusal
    })
}

function changeOf({ clientAddress }: MemberHttpDependencies, call: RouteRequest<KeyOrSession>): MemberChange {
  const { principal, parameters } = call
  const [memberId = ''] = parameters
  const actingId = principal.kind === 'session' ? principal.id : null
  return { organizationId: principal.organizationId, memberId, actor: actorOf(clientAddress, call), actingId }
}
