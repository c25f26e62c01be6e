/** Long work in short pieces, between which others are served. */

import type { Timers } from '../lib/time.ts'

/** Of a turn's own work, milliseconds. One item that takes longer is not interrupted. */
const TURN_MOST_MS = 4

/**
 * Makes one thing of each item, in their order. When `make` throws, so does this, and the other items are left. Others
 * are served after every {@link TURN_MOST_MS} of it.
 */
export async function mapInTurns<Item, Made>(
  items: readonly Item[],
  make: (item: Item, index: number) => Made,
  timers: Pick<Timers, 'monotonicMs'>,
): Promise<Made[]> {
  const made: Made[] = []
  let startedMs = timers.monotonicMs()
  for (const [index, item] of items.entries()) {
    made.push(make(item, index))
    if (timers.monotonicMs() - startedMs < TURN_MOST_MS) continue
    await new Promise((resolve) => setImmediate(resolve))
    startedMs = timers.monotonicMs()
  }
  return made
}
