import type { Queryable } from '../../infra/postgres/database.ts'
import type { DeadCharge } from './deadCharge.ts'
import { selectDeadCharges } from './store.ts'

/** Lists dead charges behind an id, the newest by admission first, so many at most. */
export function listDeadCharges(database: Queryable, behindId: string | null, atMost: number): Promise<DeadCharge[]> {
  return selectDeadCharges(database, behindId, atMost)
}
