import { type Catalog, tiersOf } from '../../../catalog/model.ts'
import { priceHash } from '../../../catalog/price.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import { storePriceVersions } from './store.ts'

/** Stores the prices of a catalog before it is in force, so that every charge can be recomputed. */
export function storePrices(database: Queryable, catalog: Catalog, nowMs: number): Promise<void> {
  return storePriceVersions(database, tiersOf(catalog), nowMs)
}

/** Stores the price of an hour of one GPU before an instance is accepted at it. */
export function storeInstancePrice(database: Queryable, perGpuHourMicrocents: bigint, nowMs: number): Promise<void> {
  const price = { kind: 'instance_hour', perGpuHourMicrocents } as const
  return storePriceVersions(database, [{ price, priceHash: priceHash(price) }], nowMs)
}
