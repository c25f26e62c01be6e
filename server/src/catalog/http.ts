import { refusal } from '../lib/errors.ts'
import { ok, type Result, refused } from '../lib/result.ts'
import type { Clock } from '../lib/time.ts'
import { type Listing, type Listings, listingsOf } from './listings.ts'
import { type Catalog, lookUp, MODALITIES, type Modality, quoteName } from './model.ts'

/** An answer of the catalog, to be sent as it is. */
export interface CatalogAnswer {
  readonly status: 200 | 304
  readonly headers: Readonly<Record<string, string>>
  /** Null with 304. */
  readonly bytes: Uint8Array | null
}

export interface CatalogEndpoints {
  /** `GET /models`. `ifNoneMatch` is the header's value, or null. */
  list(catalog: Catalog, query: URLSearchParams, ifNoneMatch: string | null): Promise<Result<CatalogAnswer>>
  /** `GET /models/{id}`. `id` is all that follows `/models/` in the path, decoded. */
  retrieve(catalog: Catalog, id: string, query: URLSearchParams, ifNoneMatch: string | null): Result<CatalogAnswer>
}

/**
 * The endpoints of the catalog. They keep the listings of the catalog that was asked for last. Prices by time of day are
 * shown as of the clock's instant.
 */
export function createCatalogEndpoints(clock: Clock): CatalogEndpoints {
  let made: { readonly catalog: Catalog; readonly listings: Listings } | null = null
  const listingsFor = (catalog: Catalog): Listings => {
    if (made?.catalog !== catalog) made = { catalog, listings: listingsOf(catalog, clock) }
    return made.listings
  }
  return {
    list: async (catalog, query, ifNoneMatch) => {
      const modality = readModality(query)
      if (!modality.ok) return modality
      return ok(answer(await listingsFor(catalog).list(modality.value, clock.now()), ifNoneMatch))
    },
    retrieve: (catalog, id, query, ifNoneMatch) => {
      const unknown = unknownParameter(query, [])
      if (unknown !== null) return unknown
      const resolved = lookUp(catalog, id)
      if (resolved.ok) return ok(answer(listingsFor(catalog).model(resolved.value, clock.now()), ifNoneMatch))
      // There is no field to blame: the id is part of the path.
      return refused(refusal(resolved.refusal.code, resolved.refusal.message))
    },
  }
}

function readModality(query: URLSearchParams): Result<Modality | null> {
  const unknown = unknownParameter(query, ['modality'])
  if (unknown !== null) return unknown
  const values = query.getAll('modality')
  if (values.length === 0) return ok(null)
  const modality = MODALITIES.find((each) => each === values[0])
  if (modality !== undefined && values.length === 1) return ok(modality)
  const message = `'modality' must be one of ${MODALITIES.join(', ')}; give it once.`
  return refused(refusal('invalid_request', message, { param: 'modality' }))
}

/** E8: a query parameter that the endpoint does not know is refused, never ignored. */
function unknownParameter(query: URLSearchParams, known: readonly string[]): Result<never> | null {
  for (const name of query.keys()) {
    if (known.includes(name)) continue
    const message = `The query parameter ${quoteName(name)} is not supported here: leave it out.`
    return refused(refusal('unsupported_parameter', message, { param: name.slice(0, PARAM_MAX_CHARACTERS) }))
  }
  return null
}

/** A client's own word is echoed, up to here. */
const PARAM_MAX_CHARACTERS = 128

function answer(listing: Listing, ifNoneMatch: string | null): CatalogAnswer {
  // A shared cache must not keep it (it needs a key); a client's may, and asks each time whether it still holds.
  const headers = { ETag: listing.etag, 'Cache-Control': 'private, no-cache' }
  if (ifNoneMatch !== null && matches(ifNoneMatch, listing.etag)) return { status: 304, headers, bytes: null }
  return { status: 200, headers: { ...headers, 'Content-Type': 'application/json' }, bytes: listing.bytes }
}

/** RFC 9110, 13.1.2: a list of tags or `*`, compared weakly. Our tags hold no comma. */
function matches(ifNoneMatch: string, etag: string): boolean {
  return ifNoneMatch.split(',').some((part) => {
    const tag = part.trim()
    return tag === '*' || tag === etag || tag === `W/${etag}`
  })
}
