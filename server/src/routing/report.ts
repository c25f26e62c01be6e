/** What operators hear of attempts at targets. */

import type { Log } from '../kernel/log.ts'
import type { UpstreamFailure } from '../upstream/spec.ts'
import type { AttemptOutcome, ChatTarget } from './attempt.ts'

export interface RoutingMetrics {
  /** One attempt at one upstream is over. */
  attempt(upstream: string, outcome: AttemptOutcome, elapsedMs: number): void
  /** A target is asked beside one that has been silent for long. */
  hedged(upstream: string): void
}

export interface ReportOptions {
  readonly log: Log
  readonly metrics?: RoutingMetrics | undefined
  /** Told of each attempt at a target when it is over. */
  readonly onAttempt?: ((target: ChatTarget, outcome: AttemptOutcome, elapsedMs: number) => void) | undefined
}

/** Tells metrics, the trace and the log how an attempt at a target ended. */
export function report(
  { log, metrics, onAttempt }: ReportOptions,
  target: ChatTarget,
  outcome: AttemptOutcome,
  failure: UpstreamFailure | null,
  elapsedMs: number,
): void {
  metrics?.attempt(target.upstream.name, outcome, elapsedMs)
  onAttempt?.(target, outcome, elapsedMs)
  if (failure === null) return
  const fields = { upstream: target.upstream.name, model: target.model, kind: failure.kind, detail: failure.message }
  if (failure.kind === 'misconfigured') {
    log.error(fields, 'an upstream refuses this gateway: check its base URL, its credential, and the model name')
  } else if (failure.kind === 'rejected' || failure.kind === 'context_length') {
    // The client's own mistakes, as many as it likes: no business of the operator's.
    log.debug(fields, 'an upstream did not take a request')
  } else log.warn(fields, 'a call to an upstream failed')
}
