import type { Queryable } from '../../infra/postgres/database.ts'
import { refusal } from '../../lib/errors.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import type { Organization } from './organization.ts'
import {
  selectAnyDeleted,
  selectAnyOrganizationById,
  selectAnyOrganizationByName,
  selectNames,
  selectOrganizationById,
  selectOrganizationByName,
  selectOrganizationPage,
} from './store.ts'

/** The organization of that name, in whichever way its accents are written. Refused (`not_found`) when there is none. */
export async function findOrganizationByName(database: Queryable, name: string): Promise<Result<Organization>> {
  const organization = await selectOrganizationByName(database, name.normalize('NFC'))
  return organization === undefined ? noneNamed(name) : ok(organization)
}

/** The same, or a deleted organization by its id: for operators, who keep its books. */
export async function findAnyOrganization(database: Queryable, name: string): Promise<Result<Organization>> {
  const organization = await selectAnyOrganizationByName(database, name.normalize('NFC'))
  return organization === undefined ? noneNamed(name) : ok(organization)
}

function noneNamed(name: string): Result<never> {
  return refused(refusal('not_found', `There is no organization named "${name}": check the name.`, { param: 'org' }))
}

/** The organization of this id; undefined where there is none, or it is deleted. */
export function findOrganizationById(database: Queryable, id: string): Promise<Organization | undefined> {
  return selectOrganizationById(database, id)
}

/** The same, deleted or not. */
export function findAnyOrganizationById(database: Queryable, id: string): Promise<Organization | undefined> {
  return selectAnyOrganizationById(database, id)
}

/** Returns whether an organization of this installation was ever deleted. */
export function hasDeletedOrganization(database: Queryable): Promise<boolean> {
  return selectAnyDeleted(database)
}

/** Lists at most `atMost` organizations before the id `beforeId`, the newest first, deleted ones too. */
export function listOrganizationPage(
  database: Queryable,
  beforeId: string | null,
  atMost: number,
): Promise<Organization[]> {
  return selectOrganizationPage(database, beforeId, atMost)
}

/** The names of organizations by their ids, deleted ones among them. An id of none has no entry. */
export function namesOfOrganizations(database: Queryable, ids: readonly string[]): Promise<Map<string, string>> {
  return selectNames(database, [...new Set(ids)])
}
