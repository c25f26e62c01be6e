import type { Queryable } from '../../../infra/postgres/database.ts'
import {
  type ChargePlace,
  type ChargeWindow,
  type ListedCharge,
  type PostedCharge,
  type PostedWindow,
  placeOfCharge,
} from './charge.ts'
import { hasCharge, selectCharges, selectPostedCharges } from './store.ts'

/** Returns the oldest charges of a window behind `after`, at most `limit`: by admission, those of one instant by falling ids. */
export function readPostedCharges(
  database: Queryable,
  window: PostedWindow,
  after: ChargePlace | null,
  limit: number,
): Promise<PostedCharge[]> {
  return selectPostedCharges(database, window, after, limit)
}

/**
 * Returns the charges of an organization that were admitted in a window, newest first, as an operator sees them: behind the charge
 * `afterId`, or the first ones. Null: the organization has no such charge.
 */
export async function listCharges(
  database: Queryable,
  organizationId: string,
  window: ChargeWindow,
  afterId: string | null,
): Promise<ListedCharge[] | null> {
  if (afterId === null) return await selectCharges(database, organizationId, window, null)
  const place = placeOfCharge(afterId)
  if (place === null || !(await hasCharge(database, organizationId, place))) return null
  return await selectCharges(database, organizationId, window, place)
}
