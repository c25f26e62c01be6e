/** Returns the wait after so many failures, in milliseconds: `firstMs` after none, doubled for each, at most `mostMs`. */
export function doubledMs(firstMs: number, mostMs: number, failures: number): number {
  return Math.min(firstMs * 2 ** failures, mostMs)
}

/**
 * Returns the instant at which work whose attempt failed is tried again; null: never.
 *
 * @param retryMs the delay after each failure but the last
 * @param failed attempts that have failed, at least 1
 * @param jitter the part of the delay that is added, or, below 0, taken off: work that failed together is spread
 */
export function nextAttemptMs(
  retryMs: readonly number[],
  failed: number,
  nowMs: number,
  jitter: number,
): number | null {
  const delayMs = retryMs[failed - 1]
  return delayMs === undefined ? null : nowMs + Math.round(delayMs * (1 + jitter))
}
