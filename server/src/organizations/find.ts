import type { Queryable } from '../io/postgres/database.ts'
import { refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import type { Organization } from './organization.ts'
import { selectOrganizationByName, selectOrganizations } from './store.ts'

/** The organization of that name, in whichever way its accents are written. Refused (`not_found`) when there is none. */
export async function findOrganizationByName(database: Queryable, name: string): Promise<Result<Organization>> {
  const organization = await selectOrganizationByName(database, name.normalize('NFC'))
  if (organization !== undefined) return ok(organization)
  return refused(refusal('not_found', `There is no organization named "${name}".`, { param: 'org' }))
}

/** All organizations, oldest first. */
export function listOrganizations(database: Queryable): Promise<Organization[]> {
  return selectOrganizations(database)
}
