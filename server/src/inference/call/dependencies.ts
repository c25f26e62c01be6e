import type { Charge } from '../../billing/charges/charge.ts'
import type { ChargingMoney } from '../../billing/charges/settle.ts'
import type { Catalog } from '../../catalog/model.ts'
import type { Log } from '../../lib/log.ts'
import type { Telemetry } from '../../lib/telemetry.ts'
import type { Clock } from '../../lib/time.ts'
import type { Providers } from '../../providers/targets.ts'
import type { Health } from '../../routing/health.ts'
import type { RoutingMetrics } from '../../routing/report.ts'

export interface InferenceMetrics extends RoutingMetrics {
  /** The charge of a call is durable, `elapsedMs` after its admission. */
  charged(charge: Charge, elapsedMs: number): void
  /** A call could not be admitted from memory: `elapsedMs` passed until it was admitted or refused. */
  waitedForMoney(elapsedMs: number): void
  refusedForMoney(code: string): void
}

/** The dependencies of every paid call. An endpoint adds its own. */
export interface InferenceDependencies {
  readonly clock: Clock
  readonly log: Log
  readonly money: ChargingMoney
  readonly catalog: () => Catalog
  readonly providers: Providers
  /** The health of all targets. */
  readonly health: Health
  /** From 0 up to, and without, 1. */
  readonly random: () => number
  readonly metrics?: InferenceMetrics
  /** Where calls are traced. */
  readonly telemetry?: Telemetry
}
