import { ProviderFailure } from '../providers/dialect/spec.ts'

/** Returns whether the target found fault with the request itself: its client can mend it. */
export function isOfRequest({ kind }: ProviderFailure): boolean {
  return kind === 'rejected' || kind === 'context_length'
}

/**
 * Returns the failure that a dialect threw. An error of another class is a bug of ours: its message may hold
 * anything, so it is not quoted.
 */
export function asFailure(error: unknown): ProviderFailure {
  if (error instanceof ProviderFailure) return error
  const failure = new ProviderFailure('faulty', `unexpected: ${error instanceof Error ? error.name : typeof error}`)
  failure.cause = error
  return failure
}
