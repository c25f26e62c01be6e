/** Up to so much is added, so that what failed together is not tried again together. */
const JITTER = 0.1

/**
 * When a delivery whose attempt failed is tried again; null: never.
 *
 * @param failed attempts of this round that have failed, at least 1
 * @param share a random number from 0 up to, and without, 1
 */
export function nextAttemptMs(retryMs: readonly number[], failed: number, nowMs: number, share: number): number | null {
  const delayMs = retryMs[failed - 1]
  return delayMs === undefined ? null : nowMs + Math.round(delayMs * (1 + JITTER * share))
}
