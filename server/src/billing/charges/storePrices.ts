import { type Catalog, tiersOf } from '../../catalog/model.ts'
import { priceHash, priceToJson } from '../../catalog/price.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { storePriceVersion } from './store.ts'

/** Stores the prices of a catalog before it is in force, so that every charge can be recomputed. */
export async function storePrices(database: Queryable, catalog: Catalog, nowMs: number): Promise<void> {
  for (const tier of tiersOf(catalog)) {
    await storePriceVersion(database, tier.priceHash, priceToJson(tier.price), nowMs)
  }
}

/** Stores the price of an hour of one GPU before an instance is accepted at it. */
export function storeInstancePrice(database: Queryable, perGpuHourMicrocents: bigint, nowMs: number): Promise<void> {
  const price = { kind: 'instance_hour', perGpuHourMicrocents } as const
  return storePriceVersion(database, priceHash(price), priceToJson(price), nowMs)
}
