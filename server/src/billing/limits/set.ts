import type { Database } from '../../infra/postgres/database.ts'
import type { Clock } from '../../lib/time.ts'
import { type JoinLimit, setLimit } from '../admission/accounts/limit.ts'
import type { OpenMoney } from '../admission/openMoney.ts'
import { type LimitRequest, type SpendingLimit, toChange } from './limit.ts'
import { readSpendingLimit } from './read.ts'

export interface LimitDependencies {
  readonly database: Database
  readonly clock: Clock
  /** The money of this process; left out: it has none, as a command. */
  readonly money?: Pick<OpenMoney, 'comeIntoLine'>
}

/**
 * Sets an organization's spending limit. This process admits new calls by it when the result is there, every other one within a
 * second. `join`: work of the same transaction.
 */
export async function setSpendingLimit(
  { database, clock, money }: LimitDependencies,
  organizationId: string,
  wanted: LimitRequest,
  join?: JoinLimit,
): Promise<SpendingLimit> {
  if (await setLimit(database, organizationId, toChange(wanted), join)) await money?.comeIntoLine(organizationId)
  const limit = await readSpendingLimit(database, clock, organizationId)
  if (limit === null) throw new Error(`the organization ${organizationId} has no account to set a limit on`)
  return limit
}
