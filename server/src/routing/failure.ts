import { UpstreamFailure } from '../upstream/spec.ts'

/** Whatever a dialect threw. What is no UpstreamFailure is a bug of ours: its message may hold anything, so it is not quoted. */
export function asFailure(error: unknown): UpstreamFailure {
  if (error instanceof UpstreamFailure) return error
  const failure = new UpstreamFailure('faulty', `unexpected: ${error instanceof Error ? error.name : typeof error}`)
  failure.cause = error
  return failure
}
