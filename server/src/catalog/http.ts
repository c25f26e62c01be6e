import { refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import type { Clock } from '../kernel/time.ts'
import { type Catalog, lookUp, MODALITIES, type Modality, quoteName } from './model.ts'
import { type Page, type Pages, pagesOf } from './pages.ts'

/** An answer of the catalog, to be sent as it is. */
export interface CatalogAnswer {
  readonly status: 200 | 304
  readonly headers: Readonly<Record<string, string>>
  /** Null with 304. */
  readonly bytes: Uint8Array | null
}

export interface CatalogEndpoints {
  /** `GET /models`. `ifNoneMatch` is the header's value, or null. */
  list(catalog: Catalog, query: URLSearchParams, ifNoneMatch: string | null): Result<CatalogAnswer>
  /** `GET /models/{id}`. `rawId` is all that follows `/models/` in the path, as it was sent: still percent-encoded. */
  retrieve(catalog: Catalog, rawId: string, query: URLSearchParams, ifNoneMatch: string | null): Result<CatalogAnswer>
}

/**
 * The endpoints of the catalog. They keep the pages of the catalog that was asked for last. Prices by time of day are
 * shown as of the clock's instant.
 */
export function createCatalogEndpoints(clock: Clock): CatalogEndpoints {
  let made: { readonly catalog: Catalog; readonly pages: Pages } | null = null
  const pagesFor = (catalog: Catalog): Pages => {
    if (made?.catalog !== catalog) made = { catalog, pages: pagesOf(catalog) }
    return made.pages
  }
  return {
    list: (catalog, query, ifNoneMatch) => {
      const modality = readModality(query)
      return modality.ok ? ok(answer(pagesFor(catalog).list(modality.value, clock.now()), ifNoneMatch)) : modality
    },
    retrieve: (catalog, rawId, query, ifNoneMatch) => {
      const unknown = unknownParameter(query, [])
      if (unknown !== null) return unknown
      const id = decoded(rawId)
      const served = lookUp(catalog, id ?? rawId)
      if (served.ok) return ok(answer(pagesFor(catalog).model(served.value, clock.now()), ifNoneMatch))
      // There is no field to blame: the id is part of the path.
      return refused(refusal(served.refusal.code, served.refusal.message))
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
  const message = `modality must be one of ${MODALITIES.join(', ')}, given once.`
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

/** Null where the percent-encoding is broken. */
function decoded(rawId: string): string | null {
  try {
    return decodeURIComponent(rawId)
  } catch {
    return null
  }
}

function answer(page: Page, ifNoneMatch: string | null): CatalogAnswer {
  // A shared cache must not keep it (it needs a key); a client's may, and asks each time whether it still holds.
  const headers = { ETag: page.etag, 'Cache-Control': 'private, no-cache' }
  if (ifNoneMatch !== null && matches(ifNoneMatch, page.etag)) return { status: 304, headers, bytes: null }
  return { status: 200, headers: { ...headers, 'Content-Type': 'application/json' }, bytes: page.bytes }
}

/** RFC 9110, 13.1.2: a list of tags or `*`, compared weakly. Our tags hold no comma. */
function matches(ifNoneMatch: string, etag: string): boolean {
  return ifNoneMatch.split(',').some((part) => {
    const tag = part.trim()
    return tag === '*' || tag === etag || tag === `W/${etag}`
  })
}
