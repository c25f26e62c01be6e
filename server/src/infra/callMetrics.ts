import { Counter, Histogram, type Registry } from 'prom-client'
import { labelledHistogram } from './labelledMetrics.ts'

/** Buckets, in seconds, for the time that a gateway adds (sub-millisecond) up to the time of a long answer (minutes). */
export const CALL_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
]

/** The counts of requests, and of calls at targets. Times are in milliseconds. */
export interface CallMetrics {
  answered(route: string, status: number, milliseconds: number): void
  firstToken(milliseconds: number): void
  attempt(provider: string, outcome: string, milliseconds: number): void
  /** A target was asked beside another that had been silent for long. */
  hedged(provider: string): void
  /** A request was let through without its rate limit, because the store is away. */
  limitSkipped(): void
}

export function createCallMetrics(registry: Registry): CallMetrics {
  const registers = [registry]
  const counter = (name: string, help: string, labelNames: string[] = []) =>
    new Counter({ name, help, labelNames, registers })
  const requests = labelledHistogram(
    registry,
    {
      name: 'tollgate_request_duration_seconds',
      help: 'Time from a request to its response; for streams to the first byte.',
      labelNames: ['route', 'status'],
    },
    CALL_SECONDS,
  )
  const first = new Histogram({
    name: 'tollgate_first_token_seconds',
    help: 'Time from a streamed chat request to its first token.',
    buckets: CALL_SECONDS,
    registers,
  })
  const attempts = labelledHistogram(
    registry,
    {
      name: 'tollgate_provider_attempt_duration_seconds',
      help: 'Calls to providers, by how they ended.',
      labelNames: ['provider', 'outcome'],
    },
    CALL_SECONDS,
  )
  const hedges = counter('tollgate_hedged_calls_total', 'Calls sent to a second target beside a silent one.', [
    'provider',
  ])
  const limitSkipped = counter(
    'tollgate_rate_limits_skipped_total',
    'Requests let through without their rate limit, because Redis did not answer.',
  )
  return {
    answered: (route, status, milliseconds) => requests.add(route, status, milliseconds / 1_000),
    firstToken: (milliseconds) => first.observe(milliseconds / 1_000),
    attempt: (provider, outcome, milliseconds) => attempts.add(provider, outcome, milliseconds / 1_000),
    hedged: (provider) => hedges.inc({ provider }),
    limitSkipped: () => limitSkipped.inc(),
  }
}
