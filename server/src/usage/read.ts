import type { Queryable } from '../io/postgres/database.ts'
import type { Clock } from '../kernel/time.ts'
import { type BucketCost, bucketEnd, centsOf, spanOf } from './bucket.ts'
import type { UsageCursor, UsageQuestion } from './cursor.ts'
import { readUsage } from './store.ts'

export interface UsagePage {
  readonly buckets: readonly BucketCost[]
  /** Where the next page begins; null on the last. */
  readonly next: UsageCursor | null
}

/**
 * One page of an organization's usage: at most `limit` buckets that are not empty, oldest first. `afterMs` is the last
 * bucket of the page before. A page begins at an instant and not at a number of rows, so that none is left out or shown
 * twice while charges arrive; each page is true at the instant when it is read.
 */
export async function readUsagePage(
  dependencies: { readonly database: Queryable; readonly clock: Clock },
  organizationId: string,
  question: UsageQuestion,
  page: { readonly afterMs: number | null; readonly limit: number },
): Promise<UsagePage> {
  const { database, clock } = dependencies
  const { bucket, endMs } = question
  const { afterMs, limit } = page
  const startMs = afterMs === null ? question.startMs : bucketEnd(bucket, afterMs)
  if (startMs >= endMs) return { buckets: [], next: null }
  const span = spanOf(bucket, { startMs, endMs }, clock.now())
  const { beforeMicrocents, sums } = await readUsage(database, organizationId, bucket, span, limit + 1)
  const buckets = centsOf(beforeMicrocents, sums.slice(0, limit))
  const last = buckets.at(-1)
  const more = sums.length > limit && last !== undefined
  return { buckets, next: more ? { ...question, afterMs: last.startMs } : null }
}
