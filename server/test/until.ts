import { systemClock } from '../src/infra/clock.ts'
import { sleep } from '../src/lib/time.ts'

/** So many looks follow each other at once: most of what is waited for comes within a few turns of the event loop. */
const QUICK_LOOKS = 100
/** Between later looks, milliseconds of real time. They leave the processor to what is waited for. */
const PAUSE_MS = 10

/**
 * Looks again until it is so. It has no bound of its own: a busy machine can keep another thread or process waiting for longer than any
 * number of looks takes. The runner ends a test that waits for ever, and names it.
 */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let looks = 0; !(await isSo()); looks += 1) {
    if (looks < QUICK_LOOKS) await new Promise((resolve) => setImmediate(resolve))
    else await sleep(systemClock, PAUSE_MS)
  }
}
