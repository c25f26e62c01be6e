import type { Database, Transaction } from '../io/postgres/database.ts'
import { refusal } from '../kernel/errors.ts'
import { type RandomBytes, uuidV7 } from '../kernel/ids.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import type { Clock } from '../kernel/time.ts'
import { type Organization, parseOrganizationName, type Standing } from './organization.ts'
import { insertOrganization } from './store.ts'

export interface CreateOrganizationDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  /** Opens the account that belongs to it, in the same transaction; money's own, passed in because money builds on us. */
  readonly openAccount: (tx: Transaction, organizationId: string) => Promise<void>
}

export interface NewOrganization {
  readonly name: string
  readonly standing: Standing
}

/**
 * Makes an organization together with its account, or neither. Refused (`validation_failed`) when the name is not valid
 * or is taken.
 */
export async function createOrganization(
  dependencies: CreateOrganizationDependencies,
  wanted: NewOrganization,
): Promise<Result<Organization>> {
  const { database, clock, randomBytes, openAccount } = dependencies
  const name = parseOrganizationName(wanted.name)
  if (!name.ok) return name
  const nowMs = clock.now()
  const organization: Organization = {
    id: uuidV7(nowMs, randomBytes),
    name: name.value,
    standing: wanted.standing,
    createdAtMs: nowMs,
    notifyAddresses: [],
  }
  const made = await database.transaction(async (tx) => {
    const inserted = await insertOrganization(tx, organization)
    if (inserted) await openAccount(tx, organization.id)
    return inserted
  })
  if (made) return ok(organization)
  return refused(
    refusal('validation_failed', `There already is an organization named "${organization.name}".`, { param: 'name' }),
  )
}
