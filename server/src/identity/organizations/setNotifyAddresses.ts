import type { Queryable } from '../../infra/postgres/database.ts'
import { refusal } from '../../lib/errors.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import { type Organization, parseNotifyAddresses } from './organization.ts'
import { updateNotifyAddresses } from './store.ts'

/**
 * Sets who is told of an organization's limits and low balance, in place of who was: none clears it. Refused where there
 * is no organization of that name (`not_found`), or something is no mail address (`validation_failed`).
 */
export async function setNotifyAddresses(
  database: Queryable,
  name: string,
  texts: readonly string[],
): Promise<Result<Organization>> {
  const addresses = parseNotifyAddresses(texts)
  if (!addresses.ok) return addresses
  const organization = await updateNotifyAddresses(database, name.normalize('NFC'), addresses.value)
  if (organization !== undefined) return ok(organization)
  return refused(refusal('not_found', `There is no organization named "${name}": check the name.`, { param: 'org' }))
}
