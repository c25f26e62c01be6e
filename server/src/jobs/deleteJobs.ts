import type { Queryable } from '../infra/postgres/database.ts'
import { deleteJobsOf } from './store.ts'

/**
 * Deletes the jobs of an organization, whatever their state, but those of the kinds that are named: they are to be done although it is
 * deleted. One that a process works on is lost to it. Payloads may have names and addresses, so those of dead jobs go too.
 */
export function deleteOrganizationJobs(
  database: Queryable,
  organizationId: string,
  keptKinds: readonly string[],
): Promise<void> {
  return deleteJobsOf(database, organizationId, keptKinds)
}
