/** The rows that the statement on usage in groups answers with, and the groups that they are. Pure. */

import { LOWEST_UUID } from '../../../lib/ids.ts'
import { toTimestamp } from '../../../lib/time.ts'
import type { UsageGroup, UsageGrouping, UsageGroupings, UsageGroups, UsageSums } from './group.ts'

interface SumsRow {
  readonly requests: bigint
  readonly prompt_tokens: bigint
  readonly cached_prompt_tokens: bigint
  readonly completion_tokens: bigint
  readonly image_count: bigint
  readonly video_seconds: bigint
  readonly cost_microcents: bigint
}

/** A group, or the total. Keys of the organization have the lowest UUID as their member. */
export interface GroupRow extends SumsRow {
  readonly is_total: boolean
  readonly one: string | Date | null
  readonly two: string | Date | null
}

/** Returns the total and the groups of rows, in their order. */
export function toGroups(groupings: UsageGroupings, rows: readonly GroupRow[]): UsageGroups {
  return {
    total: rows.filter(({ is_total }) => is_total).map(toSums)[0] ?? NOTHING,
    groups: rows.filter(({ is_total }) => !is_total).map((row) => toGroup(groupings, row)),
  }
}

const NOTHING: UsageSums = {
  requests: 0n,
  promptTokens: 0n,
  cachedPromptTokens: 0n,
  completionTokens: 0n,
  imageCount: 0n,
  videoSeconds: 0n,
  costMicrocents: 0n,
}

function toSums(row: SumsRow): UsageSums {
  return {
    requests: row.requests,
    promptTokens: row.prompt_tokens,
    cachedPromptTokens: row.cached_prompt_tokens,
    completionTokens: row.completion_tokens,
    imageCount: row.image_count,
    videoSeconds: row.video_seconds,
    costMicrocents: row.cost_microcents,
  }
}

function toGroup(groupings: UsageGroupings, row: GroupRow): UsageGroup {
  const values = [row.one, row.two]
  return { names: groupings.map((grouping, index) => nameOf(grouping, values[index] ?? null)), ...toSums(row) }
}

function nameOf(grouping: UsageGrouping, value: string | Date | null): string {
  if (value instanceof Date) return toTimestamp(value.getTime())
  return grouping === 'member' && value === LOWEST_UUID ? '' : (value ?? '')
}

/** Returns a group's name as the statement has it. */
export function nameToRow(grouping: UsageGrouping, name: string | null): string | null {
  return grouping === 'member' && name === '' ? LOWEST_UUID : name
}
