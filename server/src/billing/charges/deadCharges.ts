import type { Queryable } from '../../infra/postgres/database.ts'
import type { DeadCharge } from './deadCharge.ts'
import { selectDeadCharges } from './store.ts'

/** Lists at most `atMost` dead charges before the id `beforeId`, the newest by admission first. */
export function listDeadCharges(database: Queryable, beforeId: string | null, atMost: number): Promise<DeadCharge[]> {
  return selectDeadCharges(database, beforeId, atMost)
}
