import type { AdmissionContext } from '../../billing/admission/admit.ts'
import type { OnDayMended } from '../../billing/admission/renewal/renew.ts'
import type { InstanceSettings } from '../../catalog/offering.ts'
import type { Database, Transaction } from '../../infra/postgres/database.ts'
import type { RunnerMetrics } from '../../jobs/runner.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import type { Clock } from '../../lib/time.ts'
import type { InstanceDriver } from '../drivers/driver.ts'

/** An event in the life of an instance, as its organization is told. */
export interface InstanceEvent {
  readonly id: string
  readonly organizationId: string
  readonly type: 'instance.creating' | 'instance.running' | 'instance.terminated' | 'instance.failed'
  readonly createdAtMs: number
  /** The `data` of what is delivered. */
  readonly data: object
}

/** Where an instance may be when its process is killed: each is told before what follows it has begun. */
export type InstanceStep =
  | 'accepting'
  | 'accepted'
  | 'taken'
  | 'started'
  | 'made'
  | 'running'
  | 'charging'
  | 'charged'
  | 'terminating'
  | 'terminated'
  | 'removed'
  | 'finished'

export interface InstanceDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  readonly settings: InstanceSettings
  readonly driver: InstanceDriver
  readonly money: Pick<
    AdmissionContext,
    'clock' | 'knowsTime' | 'share' | 'reclaim' | 'renewer' | 'onUnreadable' | 'waitingCalls'
  >
  /** Keeps an event, and whom it has to be delivered to, in the transaction of what it tells. */
  readonly publish: (tx: Transaction, event: InstanceEvent) => Promise<void>
  /** Below this balance an organization is told so; 0: nobody is. */
  readonly lowBalanceMicrocents: bigint
  /** Something was noted that somebody must be told. */
  readonly onNoticed: () => void
  readonly onDayMended?: OnDayMended
  readonly metrics?: RunnerMetrics
  /** For tests that kill. */
  readonly reached?: (step: InstanceStep) => Promise<void> | void
}
