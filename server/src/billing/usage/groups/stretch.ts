/** The stretches of hours that a window is read by. Pure: no clock, no SQL. Instants are milliseconds since the epoch, UTC. */

import { HOUR_MS } from '../../../lib/time.ts'
import { type Bucket, bucketEnd, bucketStart, type Window } from '../bucket.ts'
import { DAY_HOURS, PART_HOURS, type UsageBlock } from './sums/block.ts'

/** A part of a window that is read at once: by the sums of its blocks, or hour by hour. */
export interface UsageStretch extends Window {
  /** The length of its blocks; 1 where it is read hour by hour. */
  readonly hours: number
  /** The first instant of the period that all of it lies in; null where usage is not grouped by periods. */
  readonly periodMs: number | null
}

/** Hours that one row for each model, tier and key has the sums of. */
interface Piece {
  readonly hours: number
  readonly endMs: number
}

/**
 * Takes a window of whole hours apart, each hour in one stretch. From its start on it goes from one piece to the next, and takes the
 * longest that begins there, that is summed, and that ends within the window and within the period.
 */
export function stretchesOf(window: Window, period: Bucket | null, blocks: readonly UsageBlock[]): UsageStretch[] {
  const pieces = piecesByStart(blocks)
  const stretches: UsageStretch[] = []
  for (let atMs = window.startMs; atMs < window.endMs; ) {
    const limitMs = period === null ? window.endMs : Math.min(window.endMs, bucketEnd(period, atMs))
    const { hours, endMs } = longest(pieces.get(atMs) ?? [], limitMs) ?? { hours: 1, endMs: atMs + HOUR_MS }
    const periodMs = period === null ? null : bucketStart(period, atMs)
    const last = stretches.at(-1)
    if (last?.hours === hours && last.periodMs === periodMs) stretches.splice(-1, 1, { ...last, endMs })
    else stretches.push({ hours, startMs: atMs, endMs, periodMs })
    atMs = endMs
  }
  return stretches
}

function longest(pieces: readonly Piece[], limitMs: number): Piece | undefined {
  return pieces.filter(({ endMs }) => endMs <= limitMs).sort((a, b) => b.endMs - a.endMs)[0]
}

/** The pieces of blocks whose sums hold: the blocks, and the parts of days. */
function piecesByStart(blocks: readonly UsageBlock[]): ReadonlyMap<number, readonly Piece[]> {
  const pieces = new Map<number, Piece[]>()
  const add = (startMs: number, piece: Piece) => {
    const others = pieces.get(startMs)
    if (others === undefined) pieces.set(startMs, [piece])
    else others.push(piece)
  }
  for (const { hours, startMs, summedUntilMs } of blocks) {
    if (summedUntilMs === null) continue
    add(startMs, { hours, endMs: summedUntilMs })
    if (hours !== DAY_HOURS) continue
    const partMs = PART_HOURS * HOUR_MS
    for (let atMs = startMs; atMs + partMs <= summedUntilMs; atMs += partMs)
      add(atMs, { hours: PART_HOURS, endMs: atMs + partMs })
  }
  return pieces
}
