import type { Queryable } from '../infra/postgres/database.ts'
import { hourCentsOf } from './job/wire.ts'
import { sumBurn } from './store.ts'

/**
 * Returns the hourly price of an organization's live instances together, in cents; 1 where it is less than half a cent, since 0
 * says that none lives.
 */
export async function readBurnCents(database: Queryable, organizationId: string): Promise<number> {
  const microcents = await sumBurn(database, organizationId)
  return microcents === 0n ? 0 : Math.max(hourCentsOf(microcents), 1)
}
