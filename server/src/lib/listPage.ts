import { z } from 'zod'
import { refusal } from './errors.ts'
import { listLimit } from './listLimit.ts'

/** The parameters of lists that are read page by page. */
export const LIST_SHAPE = {
  limit: listLimit(),
  cursor: z.string().optional().meta({ description: 'The `next_cursor` of the page before.' }),
}

/** The same as they were asked for. */
export interface ListQuery {
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
}

export const BAD_CURSOR = refusal(
  'validation_failed',
  "'cursor' is not a cursor that this server made for this list; send next_cursor unchanged.",
  { param: 'cursor' },
)

/**
 * Most bytes of JSON that the entries of one page of a list may have. Without it, 200 entries of many kilobytes each would be
 * one answer, in memory once for each client that asks for it.
 */
export const PAGE_BYTES_MOST = 1_048_576

export interface ListPage<T, W> {
  /** The entries in the form of the wire. */
  readonly data: readonly W[]
  /** The last entry of the page, behind which the next page begins; null on the last page. */
  readonly last: T | null
}

/**
 * Returns the first entries of `found`: at most `limit`, and as many as {@link PAGE_BYTES_MOST} allows, but always one. `found`
 * has one entry more than `limit` where the list goes on.
 */
export function listPage<T, W extends object>(
  found: readonly T[],
  limit: number,
  toWire: (entry: T) => W,
): ListPage<T, W> {
  const data: W[] = []
  let bytes = 0
  for (const entry of found.slice(0, limit)) {
    const wire = toWire(entry)
    bytes += Buffer.byteLength(JSON.stringify(wire))
    if (bytes > PAGE_BYTES_MOST && data.length > 0) break
    data.push(wire)
  }
  return { data, last: data.length < found.length ? (found[data.length - 1] ?? null) : null }
}

/** Returns the schema of a page of entries with the cursor of the next page. `order` describes the order of the entries. */
export function cursorPage<Entry extends z.ZodType>(entry: Entry, order: string, id: string) {
  return z
    .object({
      data: z.array(entry).meta({ description: order }),
      next_cursor: z.string().nullable().meta({ description: 'Null on the last page.' }),
    })
    .meta({ id })
}
