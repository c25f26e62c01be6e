import type { Catalog, Served } from '../catalog/model.ts'
import type { Log } from '../kernel/log.ts'
import type { Telemetry } from '../kernel/telemetry.ts'
import type { Clock } from '../kernel/time.ts'
import type { Money } from '../money/admit.ts'
import type { Outcome } from '../money/charge.ts'
import type { ChatTarget } from '../routing/attempt.ts'
import type { Health } from '../routing/health.ts'
import type { RoutingMetrics } from '../routing/report.ts'

export interface PaidMetrics extends RoutingMetrics {
  /** The charge of a call is durable, so long after its admission. */
  charged(model: string, outcome: Outcome, costMicrocents: bigint, elapsedMs: number): void
  /** A call could not be admitted from memory; so long it took until it was, or was refused. */
  waitedForMoney(elapsedMs: number): void
  refusedForMoney(code: string): void
}

/** What every paid call needs. An endpoint adds what it alone needs, and metrics of its own. */
export interface PaidDependencies {
  readonly clock: Clock
  readonly log: Log
  readonly money: Money
  readonly catalog: () => Catalog
  /** The clients of a tier's targets, in the order they are tried. */
  readonly targets: (served: Served) => readonly ChatTarget[]
  /** What is known of all targets. */
  readonly health: Health
  /** From 0 up to, and without, 1. */
  readonly random: () => number
  readonly metrics?: PaidMetrics
  /** Where calls are traced. */
  readonly telemetry?: Telemetry
}
