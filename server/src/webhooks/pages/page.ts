import { LIMIT_DEFAULT } from '../../lib/listLimit.ts'
import { BAD_CURSOR, type ListQuery } from '../../lib/listPage.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import { type Place, type PlacedList, placeFromWire } from './place.ts'

export interface PageRequest {
  readonly limit: number
  readonly after: Place | null
}

/** Where a page begins and how long it is. */
export function pageOf(list: PlacedList, query: ListQuery): Result<PageRequest> {
  const after = query.cursor === undefined ? null : placeFromWire(list, query.cursor)
  if (query.cursor !== undefined && after === null) return refused(BAD_CURSOR)
  return ok({ limit: query.limit ?? LIMIT_DEFAULT, after })
}
