/** Usage in groups. Pure: no clock, no SQL. Instants are milliseconds since the epoch, UTC. */

import { HOUR_MS } from '../../../lib/time.ts'
import { BUCKETS, type Bucket, type Window } from '../bucket.ts'

/** The things and stretches of time by which usage is grouped. */
export const USAGE_GROUPINGS = ['model', 'key', 'member', 'tier', 'modality', ...BUCKETS] as const
export type UsageGrouping = (typeof USAGE_GROUPINGS)[number]

/** One or two groupings, of which at most one is a stretch of time. */
export type UsageGroupings = readonly [UsageGrouping] | readonly [UsageGrouping, UsageGrouping]

/** The most that a window may have, and one that is grouped by hours: each group of a page is added up from its rows. */
export const WINDOW_DAYS_MOST = 400
export const HOURLY_WINDOW_DAYS_MOST = 31

/** Returns the stretch of time that usage is grouped by; null where it is not. */
export function periodOf(groupings: readonly UsageGrouping[]): Bucket | null {
  return BUCKETS.find((bucket) => groupings.includes(bucket)) ?? null
}

/** Returns the groupings of a text such as `model,key`; null where it is none. */
export function parseGroupings(text: string): UsageGroupings | null {
  const [first, second, ...more] = text
    .split(',')
    .map((name) => USAGE_GROUPINGS.find((grouping) => grouping === name) ?? null)
  if (first == null || second === null || more.length > 0) return null
  if (second === undefined) return [first]
  return first === second || (periodOf([first]) !== null && periodOf([second]) !== null) ? null : [first, second]
}

/** Returns the whole hours that a window touches. */
export function wholeHours({ startMs, endMs }: Window): Window {
  return { startMs: Math.floor(startMs / HOUR_MS) * HOUR_MS, endMs: Math.ceil(endMs / HOUR_MS) * HOUR_MS }
}

/** The sums of charges. Costs are micro-cents. */
export interface UsageSums {
  readonly requests: bigint
  readonly promptTokens: bigint
  readonly cachedPromptTokens: bigint
  readonly completionTokens: bigint
  readonly imageCount: bigint
  readonly videoSeconds: bigint
  readonly costMicrocents: bigint
}

/**
 * A group's names, as many as there are groupings: ids as text, a stretch of time by its first instant as RFC 3339, and the member
 * of keys of the organization as an empty text.
 */
export type GroupNames = readonly string[]

export interface UsageGroup extends UsageSums {
  readonly names: GroupNames
}

/** A page of groups in the order of their names, with the sums of the whole window. */
export interface UsageGroups {
  readonly total: UsageSums
  readonly groups: readonly UsageGroup[]
}
