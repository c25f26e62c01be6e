import { ProviderFailure } from '../providers/dialect/spec.ts'

/** Whatever a dialect threw. What is no ProviderFailure is a bug of ours: its message may hold anything, so it is not quoted. */
export function asFailure(error: unknown): ProviderFailure {
  if (error instanceof ProviderFailure) return error
  const failure = new ProviderFailure('faulty', `unexpected: ${error instanceof Error ? error.name : typeof error}`)
  failure.cause = error
  return failure
}
