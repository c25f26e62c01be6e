/** Blocks of hours whose usage is summed. Pure: no clock, no SQL. Instants are milliseconds since the epoch, UTC. */

import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../../lib/time.ts'
import type { Window } from '../../bucket.ts'

/** The parts of a day, which are summed with it: of a day that a window cuts, at most 5 hours are read one by one. */
export const PART_HOURS = 6
export const DAY_HOURS = 24

/** Blocks of several days, the shortest first. Each is two of the ones before it, so that few of them make up any window. */
export const LONG_BLOCK_HOURS = [48, 96, 192, 384, 768, 1_536] as const

/** A day, or several days, with usage. It begins at a whole multiple of its length since the epoch. */
export interface UsageBlock {
  readonly hours: number
  readonly startMs: number
  /** Its sums hold, and have the hours from its start up to here: all, unless it is a day that goes on. Null: they don't hold. */
  readonly summedUntilMs: number | null
}

/** An hour is summed so long after its end, when most of its charges are posted. */
const POSTED_AFTER_MS = 10 * MINUTE_MS

/** Returns the instant up to which usage is summed: the end of an hour. */
export function summableUntil(nowMs: number): number {
  return Math.floor((nowMs - POSTED_AFTER_MS) / HOUR_MS) * HOUR_MS
}

/** Returns the UTC days that a window touches, as a window. */
export function daysTouched({ startMs, endMs }: Window): Window {
  return { startMs: Math.floor(startMs / DAY_MS) * DAY_MS, endMs: Math.ceil(endMs / DAY_MS) * DAY_MS }
}

/** Returns the end of a block, whether or not it is summed up to there. */
export function blockEnd({ hours, startMs }: UsageBlock): number {
  return startMs + hours * HOUR_MS
}

/**
 * Returns the blocks to sum now, in order: days that have begun, the newest first, then longer blocks that are over, each after its
 * halves. At most so many of both.
 */
export function blocksToSum(blocks: readonly UsageBlock[], summableMs: number, most: number): UsageBlock[] {
  const needed = blocks.filter(
    (block) => block.startMs < summableMs && (block.summedUntilMs ?? -Infinity) < Math.min(blockEnd(block), summableMs),
  )
  const days = needed.filter(({ hours }) => hours === DAY_HOURS).sort((a, b) => b.startMs - a.startMs)
  const longer = needed
    .filter((block) => block.hours > DAY_HOURS && blockEnd(block) <= summableMs)
    .sort((a, b) => a.hours - b.hours || b.startMs - a.startMs)
  return [...days.slice(0, most), ...longer.slice(0, most)]
}
