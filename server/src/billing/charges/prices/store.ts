/** Every query that writes price versions. */

import { type PriceVersion, priceToJson } from '../../../catalog/price.ts'
import { arrayLiteral, type Queryable } from '../../../infra/postgres/database.ts'
import { toHex } from '../../../lib/ids.ts'
import { toTimestamp } from '../../../lib/time.ts'

/** A price with its hash, by which charges cite it. */
export interface CitedPrice {
  readonly price: PriceVersion
  readonly priceHash: Uint8Array
}

/** Stores price versions, so that every charge that cites one can be recomputed. One that is there already is left alone. */
export async function storePriceVersions(db: Queryable, prices: readonly CitedPrice[], atMs: number): Promise<void> {
  await db.query(
    `insert into price_versions (hash, price, first_seen_at)
     select decode(hash, 'hex'), price::jsonb, $3::timestamptz
       from unnest($1::text::text[], $2::text::text[]) as given (hash, price)
     on conflict (hash) do nothing`,
    [
      arrayLiteral(prices.map(({ priceHash }) => toHex(priceHash))),
      arrayLiteral(prices.map(({ price }) => priceToJson(price))),
      toTimestamp(atMs),
    ],
  )
}
