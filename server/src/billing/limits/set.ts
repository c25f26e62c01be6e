import type { Queryable } from '../../io/postgres/database.ts'
import type { Clock } from '../../kernel/time.ts'
import { setLimit } from '../../money/accounts/limit.ts'
import { type LimitRequest, type SpendingLimit, toChange } from './limit.ts'
import { readSpendingLimit } from './read.ts'

/** Sets an organization's spending limit. Every process comes into line within a second. */
export async function setSpendingLimit(
  database: Queryable,
  clock: Clock,
  organizationId: string,
  wanted: LimitRequest,
): Promise<SpendingLimit> {
  await setLimit(database, organizationId, toChange(wanted))
  const limit = await readSpendingLimit(database, clock, organizationId)
  if (limit === null) throw new Error(`the organization ${organizationId} has no account to set a limit on`)
  return limit
}
