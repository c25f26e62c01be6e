import { type Catalog, tiersOf } from '../../../catalog/model.ts'
import { priceHash } from '../../../catalog/price.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import { toHex } from '../../../lib/ids.ts'
import { storePriceVersions } from './store.ts'

/** In one statement, so that the texts of thousands are not made in one turn of the event loop. */
const PRICES_AT_ONCE = 500

/** Stores the prices of a catalog before it is in force, so that every charge can be recomputed. */
export async function storePrices(database: Queryable, catalog: Catalog, nowMs: number): Promise<void> {
  const different = new Map(tiersOf(catalog).map((tier) => [toHex(tier.priceHash), tier]))
  const prices = [...different.values()]
  for (let stored = 0; stored < prices.length; stored += PRICES_AT_ONCE) {
    await storePriceVersions(database, prices.slice(stored, stored + PRICES_AT_ONCE), nowMs)
  }
}

/** Stores the price of an hour of one GPU before an instance is accepted at it. */
export function storeInstancePrice(database: Queryable, perGpuHourMicrocents: bigint, nowMs: number): Promise<void> {
  const price = { kind: 'instance_hour', perGpuHourMicrocents } as const
  return storePriceVersions(database, [{ price, priceHash: priceHash(price) }], nowMs)
}
