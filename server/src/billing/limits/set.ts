import type { Database } from '../../infra/postgres/database.ts'
import type { Clock } from '../../lib/time.ts'
import { type JoinLimit, setLimit } from '../admission/accounts/limit.ts'
import { type LimitRequest, type SpendingLimit, toChange } from './limit.ts'
import { readSpendingLimit } from './read.ts'

/** Sets an organization's spending limit. Every process comes into line within a second. `join`: work of the same transaction. */
export async function setSpendingLimit(
  database: Database,
  clock: Clock,
  organizationId: string,
  wanted: LimitRequest,
  join?: JoinLimit,
): Promise<SpendingLimit> {
  await setLimit(database, organizationId, toChange(wanted), join)
  const limit = await readSpendingLimit(database, clock, organizationId)
  if (limit === null) throw new Error(`the organization ${organizationId} has no account to set a limit on`)
  return limit
}
