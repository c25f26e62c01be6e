/** Long work in short pieces, between which others are served. */

import { sleep, type Timers } from '../lib/time.ts'

/**
 * A turn's own work, and the rest after it, in milliseconds. One item that takes longer is not interrupted. Without a rest each step of a
 * call would wait for a turn, and a call has many.
 */
const TURN_MOST_MS = 1
const REST_MS = 4

/**
 * Makes one thing of each item, in their order. When `make` throws, so does this, and the other items are left. Others
 * are served for {@link REST_MS} after every {@link TURN_MOST_MS} of it.
 */
export async function mapInTurns<Item, Made>(
  items: readonly Item[],
  make: (item: Item, index: number) => Made,
  timers: Timers,
): Promise<Made[]> {
  const made: Made[] = []
  let startedMs = timers.monotonicMs()
  for (const [index, item] of items.entries()) {
    made.push(make(item, index))
    if (timers.monotonicMs() - startedMs < TURN_MOST_MS) continue
    await sleep(timers, REST_MS)
    startedMs = timers.monotonicMs()
  }
  return made
}

/** The most of a turn of a burst, and the rest between two of them, in milliseconds. Work that has begun goes on meanwhile. */
const BURST_TURN_MOST_MS = 1
const BURST_REST_MS = 8

/** Turns for the beginnings of much work at once: of a burst, each item asks for its own. */
export interface ShortTurns {
  /**
   * Resolves, first come first, in a turn of the event loop that has begun less than {@link BURST_TURN_MOST_MS} of such work. Where a
   * turn leaves some waiting, {@link BURST_REST_MS} pass until the next one: the database and other processes of the machine have to
   * do with a burst too, and calls come first.
   */
  take(): Promise<void>
}

export function createShortTurns(timers: Timers): ShortTurns {
  const waiting: (() => void)[] = []
  let isRunning = false
  const run = async () => {
    const startedMs = timers.monotonicMs()
    do {
      waiting.shift()?.()
      // The item that was woken works now, up to where it waits for something.
      await Promise.resolve()
    } while (waiting.length > 0 && timers.monotonicMs() - startedMs < BURST_TURN_MOST_MS)
    isRunning = waiting.length > 0
    if (isRunning) timers.after(BURST_REST_MS, () => void run())
  }
  return {
    take: () =>
      new Promise((resolve) => {
        waiting.push(resolve)
        if (isRunning) return
        isRunning = true
        setImmediate(run)
      }),
  }
}

/** Bounds how much work begins in one turn of the event loop, where each work is short and none waits as a rule. */
export interface BoundedTurns {
  /** Returns null where the work may begin at once; else resolves, first come first, in the turn in which it may. */
  take(): Promise<void> | null
}

/** At most `most` works begin in a turn. */
export function createBoundedTurns(most: number): BoundedTurns {
  const waiting: (() => void)[] = []
  let begun = 0
  const beginNext = () => {
    begun = 0
    for (const begin of waiting.splice(0, most)) {
      begun += 1
      begin()
    }
    if (begun > 0) setImmediate(beginNext)
  }
  return {
    take() {
      if (begun === 0) setImmediate(beginNext)
      else if (begun >= most) return new Promise((resolve) => waiting.push(resolve))
      begun += 1
      return null
    },
  }
}
