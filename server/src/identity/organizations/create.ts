import type { Transaction } from '../../infra/postgres/database.ts'
import { Refused, refusal } from '../../lib/errors.ts'
import { type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import type { Clock } from '../../lib/time.ts'
import { type Organization, parseOrganizationName, type Standing } from './organization.ts'
import type { OpenAccount } from './register.ts'
import { insertOrganization } from './store.ts'

export interface CreateOrganizationDependencies {
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  readonly openAccount: OpenAccount
}

export interface NewOrganization {
  readonly name: string
  readonly standing: Standing
}

/**
 * Makes an organization together with its account, in the caller's transaction. Throws the refusal (`validation_failed`) when the name is
 * not valid or is taken.
 */
export async function createOrganization(
  tx: Transaction,
  { clock, randomBytes, openAccount }: CreateOrganizationDependencies,
  wanted: NewOrganization,
): Promise<Organization> {
  const name = parseOrganizationName(wanted.name)
  if (!name.ok) throw new Refused(name.refusal)
  const nowMs = clock.now()
  const organization: Organization = {
    id: uuidV7(nowMs, randomBytes),
    name: name.value,
    standing: wanted.standing,
    createdAtMs: nowMs,
    notifyAddresses: [],
    deletedAtMs: null,
  }
  if (!(await insertOrganization(tx, organization))) {
    throw new Refused(
      refusal('validation_failed', `There is already an organization named "${organization.name}".`, { param: 'name' }),
    )
  }
  await openAccount(tx, organization.id)
  return organization
}
