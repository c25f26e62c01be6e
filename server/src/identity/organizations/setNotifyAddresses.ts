import { type Result, refused } from '../../lib/result.ts'
import type { Actor } from '../audit/entry.ts'
import { inTransaction } from '../audit/inTransaction.ts'
import { type OrganizationDependencies, putNotifyAddresses } from './change.ts'
import { findOrganizationByName } from './find.ts'
import { type Organization, parseNotifyAddresses } from './organization.ts'

/**
 * Sets, for an operator, who is told of an organization's limits and low balance, in place of who was: none clears it. Refused where there
 * is no organization of that name (`not_found`), or something is no mail address (`validation_failed`).
 */
export async function setNotifyAddresses(
  dependencies: OrganizationDependencies,
  name: string,
  texts: readonly string[],
  actor: Actor,
): Promise<Result<Organization>> {
  const addresses = parseNotifyAddresses(texts)
  if (!addresses.ok) return addresses
  const found = await findOrganizationByName(dependencies.database, name)
  if (!found.ok) return refused(found.refusal)
  const whose = { organizationId: found.value.id, actor }
  return inTransaction(dependencies.database, null, (tx) =>
    putNotifyAddresses(tx, dependencies, whose, addresses.value),
  )
}
