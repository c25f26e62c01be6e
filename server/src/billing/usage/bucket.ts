/** Buckets of time, and what they cost. Pure: no clock, no SQL. Instants are milliseconds since the epoch, UTC. */

import { divideRoundingDown, MICROCENTS_PER_CENT } from '../../lib/money.ts'
import { DAY_MS, HOUR_MS, WEEK_MS } from '../../lib/time.ts'

export const BUCKETS = ['hour', 'day', 'week', 'month'] as const
export type Bucket = (typeof BUCKETS)[number]

/** A window of time: `startMs` is in it, `endMs` is not. */
export interface Window {
  readonly startMs: number
  readonly endMs: number
}

/** How far back a window goes that names no start. */
const DEFAULT_WINDOW_MS = 30 * DAY_MS

/** The epoch was a Thursday; the Monday before it. */
const FIRST_MONDAY_MS = -3 * DAY_MS

/** The window that a request asks for (B3). Null: it has nothing in it, its start being no earlier than its end. */
export function windowOf(startMs: number | null, endMs: number | null, nowMs: number): Window | null {
  const end = endMs ?? nowMs
  const start = startMs ?? end - DEFAULT_WINDOW_MS
  return start < end ? { startMs: start, endMs: end } : null
}

/** The bucket of a request that names none (B3). */
export function defaultBucket({ startMs, endMs }: Window): Bucket {
  const lengthMs = endMs - startMs
  if (lengthMs <= 48 * HOUR_MS) return 'hour'
  if (lengthMs <= 62 * DAY_MS) return 'day'
  return lengthMs <= 366 * DAY_MS ? 'week' : 'month'
}

/** The first instant of the bucket that `atMs` is in. */
export function bucketStart(bucket: Bucket, atMs: number): number {
  if (bucket === 'month') {
    const at = new Date(atMs)
    return Date.UTC(at.getUTCFullYear(), at.getUTCMonth())
  }
  if (bucket === 'week') return roundDown(atMs - FIRST_MONDAY_MS, WEEK_MS) + FIRST_MONDAY_MS
  return roundDown(atMs, bucket === 'day' ? DAY_MS : HOUR_MS)
}

/** The first instant after the bucket that `atMs` is in. */
export function bucketEnd(bucket: Bucket, atMs: number): number {
  const startMs = bucketStart(bucket, atMs)
  if (bucket === 'month') {
    const start = new Date(startMs)
    return Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + 1)
  }
  return startMs + (bucket === 'week' ? WEEK_MS : bucket === 'day' ? DAY_MS : HOUR_MS)
}

/**
 * The parts that a window is added up from: whole days where it has some, hours at its edges, and single charges
 * within the hour that an edge cuts. They follow the running total: the hours from that of the start up to that of
 * the end, less the charges before the start in its hour, plus the charges before the end in its hour.
 */
export interface Span {
  /** The day, and the hour, that the start is in. */
  readonly startDayMs: number
  readonly startHourMs: number
  readonly startMs: number
  /** The hour that the end is in. Where that hour counts whole, the one after it. */
  readonly endHourMs: number
  readonly endMs: number
  /** From here up to the last whole day days are read, before and after them hours. */
  readonly firstDayMs: number
  readonly lastDayMs: number
}

/**
 * Takes a window apart. An end that is not before `nowMs` takes its hour whole, as nothing can have been charged after
 * it: the commonest question of all then reads no charges at its end.
 */
export function spanOf(bucket: Bucket, { startMs, endMs }: Window, nowMs: number): Span {
  const startHourMs = roundDown(startMs, HOUR_MS)
  const isOpen = endMs >= nowMs
  const endHourMs = isOpen ? roundUp(endMs, HOUR_MS) : roundDown(endMs, HOUR_MS)
  const byDay = bucket !== 'hour'
  const firstDayMs = byDay ? Math.min(roundUp(startHourMs, DAY_MS), endHourMs) : endHourMs
  const lastDayMs = byDay ? Math.max(roundDown(endHourMs, DAY_MS), firstDayMs) : endHourMs
  return {
    startDayMs: roundDown(startHourMs, DAY_MS),
    startHourMs,
    startMs,
    endHourMs,
    endMs: isOpen ? endHourMs : endMs,
    firstDayMs,
    lastDayMs,
  }
}

/** The sum of the charges in one bucket. */
export interface BucketSum {
  readonly startMs: number
  readonly microcents: bigint
}

/** The sum of one group's charges in one bucket. */
export interface GroupSum extends BucketSum {
  /** An instance or a GPU type; null: calls to models. */
  readonly group: string | null
  readonly gpuType: string | null
  readonly gpuSeconds: number
  /** The running total of the group at the start of the first bucket. */
  readonly beforeMicrocents: bigint
}

export interface BucketCost {
  readonly startMs: number
  readonly cents: number
}

/**
 * The cents of consecutive buckets (B2): each is the running total at its end, in whole cents, less that at its start, so
 * that buckets of any size add up to what was charged. `beforeMicrocents` is the running total at the first one's start.
 */
export function centsOf(beforeMicrocents: bigint, sums: readonly BucketSum[]): BucketCost[] {
  let total = beforeMicrocents
  return sums.map(({ startMs, microcents }) => {
    const before = divideRoundingDown(total, MICROCENTS_PER_CENT)
    total += microcents
    return { startMs, cents: Number(divideRoundingDown(total, MICROCENTS_PER_CENT) - before) }
  })
}

/** The cents of groups in consecutive buckets, as {@link centsOf} has them: each group has a running total of its own. */
export function centsOfGroups(sums: readonly GroupSum[]): number[] {
  const totals = new Map<string | null, bigint>()
  return sums.map(({ group, microcents, beforeMicrocents }) => {
    const before = totals.get(group) ?? beforeMicrocents
    totals.set(group, before + microcents)
    const [cost] = centsOf(before, [{ startMs: 0, microcents }])
    return cost?.cents ?? 0
  })
}

function roundDown(atMs: number, unitMs: number): number {
  return Math.floor(atMs / unitMs) * unitMs
}

function roundUp(atMs: number, unitMs: number): number {
  return Math.ceil(atMs / unitMs) * unitMs
}
