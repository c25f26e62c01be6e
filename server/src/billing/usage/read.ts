import type { Queryable } from '../../infra/postgres/database.ts'
import type { Clock } from '../../lib/time.ts'
import { bucketEnd, centsOf, centsOfGroups, spanOf } from './bucket.ts'
import type { Grouping, UsageCursor, UsageQuestion } from './cursor.ts'
import { readGroupedUsage, readUsage } from './store.ts'

/** A bucket, or one group in it. */
export interface UsageRow {
  readonly startMs: number
  readonly cents: number
  readonly gpuSeconds: number
  /** Null: calls to models, or not asked for. */
  readonly gpuType: string | null
  readonly instanceId: string | null
}

export interface UsagePage {
  readonly buckets: readonly UsageRow[]
  /** Where the next page begins; null on the last. */
  readonly next: UsageCursor | null
}

interface UsageDependencies {
  readonly database: Queryable
  readonly clock: Clock
}

/** The bounds of a page: at most `limit` rows behind the last row of the page before. */
interface AskedPage {
  readonly after: { readonly startMs: number; readonly group: string | null } | null
  readonly limit: number
}

/**
 * One page of an organization's usage: at most `limit` buckets that are not empty, oldest first, each in its groups where the
 * question has some. A page begins at an instant, and a group, and not at a number of rows, so that none is left out or shown twice
 * while charges arrive; each page is true at the instant when it is read.
 */
export function readUsagePage(
  dependencies: UsageDependencies,
  organizationId: string,
  question: UsageQuestion,
  page: AskedPage,
): Promise<UsagePage> {
  const { groupBy } = question
  return groupBy === null
    ? readBuckets(dependencies, organizationId, question, page)
    : readGroups(dependencies, organizationId, question, groupBy, page)
}

async function readBuckets(
  { database, clock }: UsageDependencies,
  organizationId: string,
  question: UsageQuestion,
  { after, limit }: AskedPage,
): Promise<UsagePage> {
  const { bucket, endMs } = question
  const startMs = after === null ? question.startMs : bucketEnd(bucket, after.startMs)
  if (startMs >= endMs) return { buckets: [], next: null }
  const span = spanOf(bucket, { startMs, endMs }, clock.now())
  const { beforeMicrocents, sums } = await readUsage(database, organizationId, bucket, span, limit + 1)
  const shown = sums.slice(0, limit)
  const costs = centsOf(beforeMicrocents, shown)
  const buckets = shown.map(({ startMs, gpuSeconds }, index) => {
    return { startMs, gpuSeconds, cents: costs[index]?.cents ?? 0, gpuType: null, instanceId: null }
  })
  const last = buckets.at(-1)
  const more = sums.length > limit && last !== undefined
  return { buckets, next: more ? { ...question, afterMs: last.startMs, afterGroup: null } : null }
}

async function readGroups(
  { database, clock }: UsageDependencies,
  organizationId: string,
  question: UsageQuestion,
  groupBy: Grouping,
  { after, limit }: AskedPage,
): Promise<UsagePage> {
  const { bucket, endMs } = question
  // The bucket of the last row may have groups that were not shown yet.
  const startMs = Math.max(question.startMs, after?.startMs ?? question.startMs)
  const span = spanOf(bucket, { startMs, endMs }, clock.now())
  const sums = await readGroupedUsage(database, organizationId, { bucket, span, groupBy }, { after, most: limit + 1 })
  const costs = centsOfGroups(sums)
  const isShown = (row: (typeof sums)[number]) =>
    after === null || row.startMs > after.startMs || (row.group ?? '') > (after.group ?? '')
  const rows = sums.map((sum, index) => ({ ...sum, cents: costs[index] ?? 0 })).filter(isShown)
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  return {
    buckets: shown.map(({ startMs, cents, gpuSeconds, gpuType, group }) => {
      return { startMs, cents, gpuSeconds, gpuType, instanceId: groupBy === 'instance_id' ? group : null }
    }),
    next:
      rows.length > limit && last !== undefined ? { ...question, afterMs: last.startMs, afterGroup: last.group } : null,
  }
}
