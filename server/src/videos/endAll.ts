import { releaseAll } from '../billing/admission/holds/hold.ts'
import type { Queryable, Transaction } from '../infra/postgres/database.ts'
import { cancelJobsOf, expireFilesOf, forgetProviderJobsOf } from './store.ts'

/**
 * Cancels all jobs of an organization that have not ended, as its customer would: free, and never refused. Returns how many. Locks the
 * jobs, and then the account.
 */
export async function cancelVideosOf(tx: Transaction, organizationId: string, nowMs: number): Promise<number> {
  const ids = await cancelJobsOf(tx, organizationId, nowMs)
  if (ids.length > 0) await releaseAll(tx, organizationId, ids)
  return ids.length
}

/**
 * Has the files of an organization's videos removed, as they would be within a day of their own, and forgets what providers call its
 * jobs: such a name may hold anything, even the prompt.
 */
export async function eraseVideosOf(database: Queryable, organizationId: string, nowMs: number): Promise<void> {
  await expireFilesOf(database, organizationId, nowMs)
  await forgetProviderJobsOf(database, organizationId)
}
