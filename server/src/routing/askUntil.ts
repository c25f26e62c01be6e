import type { CallSignal } from '../lib/callSignal.ts'
import type { Clock } from '../lib/time.ts'

interface AskUntilOptions {
  readonly clock: Clock
  /** Its abort ends the wait at once, with its reason. */
  readonly signal: CallSignal
  readonly limitMs: number
  /** Makes the error of the deadline. */
  readonly late: () => unknown
}

/**
 * Asks a provider under a deadline. A deadline or an abort rejects at once and aborts the signal that `ask` was given, whether
 * or not the provider heeds it.
 */
export function askUntil<T>(
  { clock, signal, limitMs, late }: AskUntilOptions,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  return new Promise<T>((resolve, reject) => {
    const giveUp = (reason: unknown) => {
      done()
      controller.abort(reason)
      reject(reason)
    }
    const onAbort = () => giveUp(signal.reason)
    const cancelTimer = clock.after(Math.max(limitMs, 0), () => giveUp(late()))
    const done = () => {
      cancelTimer()
      signal.removeEventListener('abort', onAbort)
    }
    if (signal.aborted) return onAbort()
    signal.addEventListener('abort', onAbort)
    ask(controller.signal).finally(done).then(resolve, reject)
  })
}
