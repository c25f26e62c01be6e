import { doubledMs } from '../../lib/backoff.ts'
import { MINUTE_MS, SECOND_MS, sleep } from '../../lib/time.ts'
import type { VideoDependencies } from './dependencies.ts'

/** How soon it is tried again, and at the latest. */
const PAUSE_FIRST_MS = SECOND_MS / 4
const PAUSE_MOST_MS = 2 * SECOND_MS

/** A database that is away for longer has more to forgive than a job. */
const TRIES_MOST_MS = 10 * MINUTE_MS

/**
 * Writes down what only this process knows, such as that a provider has taken a job: again and again while the database is
 * away, until `signal` ends it. `write` must do no harm when an earlier try of it was committed after all.
 */
export async function insist<T>(
  { clock, log }: Pick<VideoDependencies, 'clock' | 'log'>,
  signal: AbortSignal,
  write: () => Promise<T>,
): Promise<T> {
  const endMs = clock.monotonicMs() + TRIES_MOST_MS
  for (let failures = 0; ; failures += 1) {
    try {
      return await write()
    } catch (error) {
      if (signal.aborted || clock.monotonicMs() >= endMs) throw error
      log.warn({ err: error }, 'what became of a video could not be written down; tried again shortly')
      await sleep(clock, doubledMs(PAUSE_FIRST_MS, PAUSE_MOST_MS, failures))
    }
  }
}
