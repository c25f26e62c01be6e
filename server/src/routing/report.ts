/** The log lines and metrics of attempts at targets, for operators. */

import type { Log } from '../lib/log.ts'
import type { ProviderFailure, ProviderTarget } from '../providers/dialect/spec.ts'
import type { AttemptOutcome } from './attempt.ts'
import { isOfRequest } from './failure.ts'

export interface RoutingMetrics {
  /** One attempt at one provider is over. */
  attempt(provider: string, outcome: AttemptOutcome, elapsedMs: number): void
  /** A target is asked beside one that has been silent for long. */
  hedged(provider: string): void
}

export interface ReportOptions {
  readonly log: Log
  readonly metrics?: RoutingMetrics | undefined
  /** Told of each attempt at a target when it is over. */
  readonly onAttempt?: ((target: ProviderTarget, outcome: AttemptOutcome, elapsedMs: number) => void) | undefined
}

/** Tells metrics, the trace and the log how an attempt at a target ended. */
export function report(
  { log, metrics, onAttempt }: ReportOptions,
  target: ProviderTarget,
  outcome: AttemptOutcome,
  failure: ProviderFailure | null,
  elapsedMs: number,
): void {
  metrics?.attempt(target.provider.name, outcome, elapsedMs)
  onAttempt?.(target, outcome, elapsedMs)
  if (failure === null) return
  const fields = { provider: target.provider.name, model: target.model, kind: failure.kind, detail: failure.message }
  if (failure.kind === 'misconfigured') {
    log.error(fields, 'a provider refuses this gateway: check its base URL, its credential, and the model name')
  } else if (failure.advice !== null) {
    log.warn({ ...fields, advice: failure.advice }, 'a provider refuses a parameter that it is sent: follow the advice')
  } else if (isOfRequest(failure) || outcome === 'cancelled') {
    // The client's own mistakes, as many as it likes: no business of the operator's.
    log.debug(fields, 'a call failed through its client')
  } else log.warn(fields, 'a call to a provider failed')
}
