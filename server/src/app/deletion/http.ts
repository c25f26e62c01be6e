import { z } from 'zod'
import { KEPT_NOTHING } from '../../http/jsonAnswer.ts'
import type { Prepare } from '../../http/onceForKey.ts'
import type { SessionPrincipal } from '../../http/principal.ts'
import { NO_ORGANIZATION } from '../../http/principal.ts'
import { validate } from '../../http/validate.ts'
import { isRecent } from '../../identity/accounts/sessions/session.ts'
import { actorOf } from '../../identity/audit/actor.ts'
import type { ClientAddress } from '../../lib/clientAddress.ts'
import { refusal } from '../../lib/errors.ts'
import { isUuid } from '../../lib/ids.ts'
import { ok } from '../../lib/result.ts'
import { type DeletionDependencies, deleteOrganization } from './deleteOrganization.ts'

export interface DeletionHttpDependencies extends DeletionDependencies {
  readonly clientAddress: ClientAddress
}

const typedName = z.string().max(200).meta({ description: 'The name of the organization, as a check.' })

export const organizationDeletion = z
  .strictObject({
    organization_id: z.uuid().meta({
      description:
        'The organization that the session acts for. After the deletion the session acts for another organization of the person.',
    }),
    name: typedName,
  })
  .meta({ id: 'OrganizationDeletion' })

export const operatedDeletion = z.strictObject({ name: typedName }).meta({ id: 'OperatedDeletion' })

const SIGN_IN_AGAIN = refusal(
  'insufficient_scope',
  'You signed in more than ten minutes ago. Sign in again, then delete the organization.',
)

/** DELETE /organization, of the management interface. Asked again it finds no such organization. */
export function deleteOwnOrganization(dependencies: DeletionHttpDependencies): Prepare<SessionPrincipal> {
  return (call) => {
    const checked = validate(organizationDeletion, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    const { principal } = call
    const { organization_id: organizationId, name } = checked.value
    return ok(async (attempt) => {
      if (organizationId.toLowerCase() !== principal.organizationId) return NO_ORGANIZATION
      if (!isRecent({ createdAtMs: principal.signedInAtMs }, dependencies.clock.now())) return SIGN_IN_AGAIN
      const deleted = await deleteOrganization(
        dependencies,
        {
          organizationId: principal.organizationId,
          typedName: name,
          actor: actorOf(dependencies.clientAddress, call),
          ownerId: principal.id,
        },
        async () => (attempt === null ? [] : attempt.keep(KEPT_NOTHING)),
      )
      return deleted.ok ? new Response(null, { status: 204 }) : deleted.refusal
    })
  }
}

/** DELETE /operator/organizations/{id}. */
export function deleteOperatedOrganization(dependencies: DeletionHttpDependencies): Prepare<SessionPrincipal> {
  return (call) => {
    const checked = validate(operatedDeletion, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    const [organizationId = ''] = call.parameters
    return ok(async (attempt) => {
      if (!isUuid(organizationId)) return NO_ORGANIZATION
      const deleted = await deleteOrganization(
        dependencies,
        {
          organizationId,
          typedName: checked.value.name,
          actor: { ...actorOf(dependencies.clientAddress, call), kind: 'operator' },
          ownerId: null,
        },
        async () => (attempt === null ? [] : attempt.keep(KEPT_NOTHING)),
      )
      return deleted.ok ? new Response(null, { status: 204 }) : deleted.refusal
    })
  }
}
