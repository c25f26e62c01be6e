import type { Clock } from '../../server/src/lib/time.ts'

/** Resolves after `delayMs`; rejects at once when `left` is aborted. */
export async function pauseUnlessLeft(clock: Clock, delayMs: number, left: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = () => {
      cancel()
      left.removeEventListener('abort', end)
      resolve()
    }
    const cancel = clock.after(delayMs, end)
    left.addEventListener('abort', end)
  })
  left.throwIfAborted()
}
