import type { Clock } from '../../../lib/time.ts'

/** Resolves after the time, or when the signal aborts. */
export function pauseFor(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const done = () => {
      cancel()
      signal.removeEventListener('abort', done)
      resolve()
    }
    const cancel = clock.after(delayMs, done)
    signal.addEventListener('abort', done)
  })
}
