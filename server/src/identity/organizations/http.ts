import { z } from 'zod'
import { jsonAnswer, keptJson } from '../../http/jsonAnswer.ts'
import type { Prepare } from '../../http/onceForKey.ts'
import type { Handle } from '../../http/pipeline.ts'
import type { KeyOrSession } from '../../http/principal.ts'
import { NO_ORGANIZATION } from '../../http/principal.ts'
import { validate } from '../../http/validate.ts'
import type { ClientAddress } from '../../lib/clientAddress.ts'
import { ok } from '../../lib/result.ts'
import { toTimestamp } from '../../lib/time.ts'
import { actorOf } from '../audit/actor.ts'
import { changeNotifyAddresses, type OrganizationDependencies } from './change.ts'
import { findOrganizationById } from './find.ts'
import type { Organization } from './organization.ts'

export interface OrganizationHttpDependencies extends OrganizationDependencies {
  readonly clientAddress: ClientAddress
}

const addresses = z.array(z.string().max(254)).max(10)

export const organizationEntry = z
  .object({
    id: z.string().meta({ format: 'uuid' }),
    name: z.string(),
    notify_addresses: z.array(z.string()).meta({ description: 'Who is told of reached limits and a low balance.' }),
    created_at: z.iso.datetime(),
  })
  .meta({ id: 'Organization' })

export const organizationChange = z.strictObject({ notify_addresses: addresses }).meta({ id: 'OrganizationChange' })

/** GET /organization, of the management interface. */
export function showOrganization({ database }: OrganizationHttpDependencies): Handle<KeyOrSession> {
  return async ({ principal }) => {
    const organization = await findOrganizationById(database, principal.organizationId)
    return organization === undefined ? NO_ORGANIZATION : jsonAnswer(toWire(organization))
  }
}

/** PATCH /organization, of the management interface. */
export function patchOrganization(dependencies: OrganizationHttpDependencies): Prepare<KeyOrSession> {
  return (call) => {
    const checked = validate(organizationChange, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    const { organizationId } = call.principal
    const actor = actorOf(dependencies.clientAddress, call)
    return ok(async (attempt) => {
      const changed = await changeNotifyAddresses(
        dependencies,
        { organizationId, actor },
        checked.value.notify_addresses,
        async (made) => (attempt === null ? [] : attempt.keep(keptJson(toWire(made), 200))),
      )
      return changed.ok ? jsonAnswer(toWire(changed.value)) : changed.refusal
    })
  }
}

function toWire({ id, name, notifyAddresses, createdAtMs }: Organization): z.infer<typeof organizationEntry> {
  return { id, name, notify_addresses: [...notifyAddresses], created_at: toTimestamp(createdAtMs) }
}
