import { z } from 'zod'
import { refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import { type Place, type PlacedList, placeFromWire } from './place.ts'

const LIMIT_MOST = 200
const LIMIT_DEFAULT = 50

const limitError = { error: `must be a whole number from 1 to ${LIMIT_MOST}` }

/** The parameters of every list. */
export const PAGE_SHAPE = {
  limit: z.coerce
    .number(limitError)
    .int(limitError)
    .min(1, limitError)
    .max(LIMIT_MOST, limitError)
    .optional()
    .meta({ description: `Unless given: ${LIMIT_DEFAULT}.` }),
  cursor: z.string().optional().meta({ description: 'The `next_cursor` of the page before.' }),
}

export interface Page {
  readonly limit: number
  readonly after: Place | null
}

/** Where a page begins and how long it is. */
export function pageOf(
  list: PlacedList,
  query: { limit?: number | undefined; cursor?: string | undefined },
): Result<Page> {
  const after = query.cursor === undefined ? null : placeFromWire(list, query.cursor)
  if (query.cursor !== undefined && after === null) return refused(BAD_CURSOR)
  return ok({ limit: query.limit ?? LIMIT_DEFAULT, after })
}

const BAD_CURSOR = refusal(
  'validation_failed',
  "'cursor' is none that this server made for this list; take next_cursor as it is.",
  { param: 'cursor' },
)
