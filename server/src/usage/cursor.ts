import { BUCKETS, type Bucket, bucketStart, type Window } from './bucket.ts'

/** Whatever a use of compute is grouped by. Calls to models have none of these, and so make one group. */
export const GROUPINGS = ['instance_id', 'gpu_type'] as const
export type Grouping = (typeof GROUPINGS)[number]

/** A question for usage, all defaults settled: what its pages have in common. */
export interface UsageQuestion extends Window {
  readonly bucket: Bucket
  readonly groupBy: Grouping | null
}

/** Where a page begins: the question, fixed by its first page, and the last bucket that was shown. */
export interface UsageCursor extends UsageQuestion {
  readonly afterMs: number
}

/** Cursors are some 80 characters; a longer text is none. */
const CURSOR_CHARACTERS_MAX = 256

/** Writes a cursor as the opaque text that clients hand back. */
export function cursorToWire({ bucket, groupBy, startMs, endMs, afterMs }: UsageCursor): string {
  return Buffer.from(JSON.stringify([1, bucket, groupBy, startMs, endMs, afterMs])).toString('base64url')
}

/** Reads a cursor; null when it is none of ours. It names no organization: that is the key's. */
export function cursorFromWire(text: string): UsageCursor | null {
  if (text.length > CURSOR_CHARACTERS_MAX) return null
  let read: unknown
  try {
    read = JSON.parse(Buffer.from(text, 'base64url').toString())
  } catch {
    return null
  }
  if (!Array.isArray(read) || read.length !== 6 || read[0] !== 1) return null
  const bucket = BUCKETS.find((each) => each === read[1])
  const groupBy = read[2] === null ? null : GROUPINGS.find((each) => each === read[2])
  const [startMs, endMs, afterMs]: unknown[] = read.slice(3)
  if (bucket === undefined || groupBy === undefined) return null
  if (!isInstant(startMs) || !isInstant(endMs) || !isInstant(afterMs) || startMs >= endMs) return null
  const isShown = bucketStart(bucket, afterMs) === afterMs && afterMs >= bucketStart(bucket, startMs) && afterMs < endMs
  return isShown ? { bucket, groupBy, startMs, endMs, afterMs } : null
}

/** What the database and the wire both can write. A bucket may begin before the first instant that is in it. */
function isInstant(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= EARLIEST_MS - WEEK_AT_MOST_MS && Number(value) < LATEST_MS
}

const WEEK_AT_MOST_MS = 7 * 86_400_000

/** Nothing was charged before computers counted from here, nor will be as long as years have four digits. */
export const EARLIEST_MS = 0
export const LATEST_MS = Date.UTC(9999, 0)
