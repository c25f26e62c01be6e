import type { Queryable } from '../../../infra/postgres/database.ts'
import type { ChargePlace, ChargeWindow, ListedCharge, PostedCharge, PostedWindow } from './charge.ts'
import { selectCharges, selectPostedCharges } from './store.ts'

/** Returns the oldest charges of a window behind `after`, at most `limit`: by admission, those of one instant by falling ids. */
export function readPostedCharges(
  database: Queryable,
  window: PostedWindow,
  after: ChargePlace | null,
  limit: number,
): Promise<PostedCharge[]> {
  return selectPostedCharges(database, window, after, limit)
}

/** Returns the charges of an organization that were admitted in a window, newest first, as an operator sees them. */
export function listCharges(
  database: Queryable,
  organizationId: string,
  window: ChargeWindow,
): Promise<ListedCharge[]> {
  return selectCharges(database, organizationId, window)
}
