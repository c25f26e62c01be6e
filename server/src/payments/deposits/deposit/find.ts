import type { Queryable } from '../../../infra/postgres/database.ts'
import { COUNTED_MOST } from '../../../lib/gauge.ts'
import { isUuid } from '../../../lib/ids.ts'
import type { DepositStatus, FoundDeposit } from './deposit.ts'
import { selectDeposit, selectDeposits, selectUnderWay } from './store.ts'

/** Lists deposits, the newest first: of one organization, or of all where `organizationId` is null. */
export function listDeposits(db: Queryable, organizationId: string | null, limit: number): Promise<FoundDeposit[]> {
  return selectDeposits(db, organizationId, limit)
}

/** Returns a deposit of an organization, or of any where that is null; null where it has none of this id, which may be any text. */
export async function findDeposit(
  db: Queryable,
  organizationId: string | null,
  id: string,
): Promise<FoundDeposit | null> {
  return isUuid(id) ? selectDeposit(db, organizationId, id) : null
}

/** Deposits of one status, for the metrics. */
export interface DepositFigures {
  readonly status: DepositStatus
  readonly count: number
  /** When the oldest of them was made. */
  readonly oldestMs: number
}

/** Reads how many deposits are not over, by status. */
export function readDepositFigures(db: Queryable): Promise<DepositFigures[]> {
  return selectUnderWay(db, COUNTED_MOST)
}
