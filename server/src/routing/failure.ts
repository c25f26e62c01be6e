import { ProviderFailure } from '../providers/dialect/spec.ts'

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
