import type { Queryable } from '../../io/postgres/database.ts'
import type { Delivery } from '../deliveries/delivery.ts'
import type { Place } from '../place.ts'
import { type DeliveryFilter, listDeliveriesAfter } from './store.ts'

export type { DeliveryFilter } from './store.ts'

/** A page of deliveries, newest first, and where the next one begins; null on the last page. */
export async function listDeliveries(
  database: Queryable,
  filter: DeliveryFilter,
  after: Place | null,
  limit: number,
): Promise<{ deliveries: Delivery[]; next: Place | null }> {
  const found = await listDeliveriesAfter(database, filter, after, limit + 1)
  const deliveries = found.slice(0, limit)
  return { deliveries, next: found.length > limit ? (deliveries.at(-1) ?? null) : null }
}
