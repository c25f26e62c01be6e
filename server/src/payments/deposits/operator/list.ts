import type { Queryable } from '../../../infra/postgres/database.ts'
import { isUuid } from '../../../lib/ids.ts'
import { type ShownTransfer, selectShown } from './store.ts'

const LISTED_MOST = 1_000

/** Transfers to a deposit. `isWhole`: there are no more. */
export interface ListedTransfers {
  readonly transfers: readonly ShownTransfer[]
  readonly isWhole: boolean
}

/** Lists the transfers to a deposit, of wrong tokens too, the newest first; none where there is no such deposit. */
export async function listTransfers(db: Queryable, depositId: string): Promise<ListedTransfers> {
  const found = isUuid(depositId) ? await selectShown(db, depositId, LISTED_MOST + 1) : []
  return { transfers: found.slice(0, LISTED_MOST), isWhole: found.length <= LISTED_MOST }
}
