import { readCursor, writeCursor } from '../../lib/cursor.ts'
import { LATEST_MS } from '../../lib/instant.ts'
import { DAY_MS } from '../../lib/time.ts'
import { BUCKETS, type Bucket, bucketStart, type Window } from './bucket.ts'

/**
 * The properties that uses of compute are grouped by. Calls to models have none of these, so they make one group, the
 * first of a bucket.
 */
export const GROUPINGS = ['instance_id', 'gpu_type'] as const
export type Grouping = (typeof GROUPINGS)[number]

/** A query for usage with its defaults filled in. All pages of one listing share it. */
export interface UsageQuestion extends Window {
  readonly bucket: Bucket
  readonly groupBy: Grouping | null
}

/** Where a page begins: the question, fixed by its first page, and the last bucket that was shown. */
export interface UsageCursor extends UsageQuestion {
  readonly afterMs: number
  /** The last group that was shown of it; null: that of calls to models, or the question has no groups. */
  readonly afterGroup: string | null
}

/** Writes a cursor as the opaque text that clients hand back. */
export function cursorToWire({ bucket, groupBy, startMs, endMs, afterMs, afterGroup }: UsageCursor): string {
  const shown = groupBy === null ? [afterMs] : [afterMs, afterGroup]
  return writeCursor([bucket, groupBy, startMs, endMs, ...shown])
}

/** Reads a cursor; null when it is none of ours. It names no organization: that is the key's. */
export function cursorFromWire(text: string): UsageCursor | null {
  const fields = readCursor(text, 5) ?? readCursor(text, 6)
  if (fields === null) return null
  const [bucketName, grouping, startMs, endMs, afterMs, afterGroup = null] = fields
  const bucket = BUCKETS.find((each) => each === bucketName)
  const groupBy = grouping === null ? null : GROUPINGS.find((each) => each === grouping)
  if (bucket === undefined || groupBy === undefined || (groupBy === null) !== (fields.length === 5)) return null
  if (afterGroup !== null && typeof afterGroup !== 'string') return null
  if (!isInstant(startMs) || !isInstant(endMs) || !isInstant(afterMs) || startMs >= endMs) return null
  const isShown = bucketStart(bucket, afterMs) === afterMs && afterMs >= bucketStart(bucket, startMs) && afterMs < endMs
  return isShown ? { bucket, groupBy, startMs, endMs, afterMs, afterGroup } : null
}

/** A bucket may begin before the first instant that is in it. */
function isInstant(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= EARLIEST_MS - WEEK_AT_MOST_MS && Number(value) < LATEST_MS
}

const WEEK_AT_MOST_MS = 7 * DAY_MS

/** Nothing was charged before computers counted from here. */
export const EARLIEST_MS = 0
