import type { AdmissionContext } from '../../billing/admission/admit.ts'
import type { OnDayMended } from '../../billing/admission/renewal/renew.ts'
import type { Catalog } from '../../catalog/model.ts'
import type { Artifacts } from '../../infra/artifacts.ts'
import type { Database, Transaction } from '../../infra/postgres/database.ts'
import type { RunnerMetrics } from '../../jobs/runner.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import type { Telemetry } from '../../lib/telemetry.ts'
import type { Clock } from '../../lib/time.ts'
import type { Provider } from '../../providers/dialect/spec.ts'
import type { Providers } from '../../providers/targets.ts'
import type { Health } from '../../routing/health.ts'
import type { RoutingMetrics } from '../../routing/report.ts'
import type { VideoError } from './video.ts'

/** An event in the life of a job, as its organization is told. */
export interface VideoEvent {
  readonly id: string
  readonly organizationId: string
  readonly type: 'video.completed' | 'video.failed'
  readonly createdAtMs: number
  /** The `data` of what is delivered. */
  readonly data: object
}

/** Where a job may be when its process is killed: each is told before what follows it has begun. */
export type Step =
  | 'taken'
  | 'submitted'
  | 'accepted'
  | 'looked'
  | 'staged'
  | 'measured'
  | 'completing'
  | 'completed'
  | 'failing'
  | 'failed'
  | 'cancelling'
  | 'cancelled'

/** The counters of jobs. */
export interface VideoMetrics extends RunnerMetrics, Pick<RoutingMetrics, 'attempt'> {
  /** A job had to wait for money for so long until it was accepted or refused. */
  waitedForMoney(elapsedMs: number): void
  refusedForMoney(code: string): void
  videoCreated(model: string): void
  /** A job is over, so long after its creation; `expired` is one that never had its turn. */
  videoEnded(model: string, outcome: 'completed' | 'cancelled' | 'expired' | VideoError, elapsedMs: number): void
  videoCharged(model: string, seconds: number, costMicrocents: bigint): void
  /** Somebody looked for jobs whose turn it is, or for those that are due, and took up what there was. */
  videosClaimed(claim: 'start' | 'due', elapsedMs: number): void
}

export interface VideoDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  readonly money: AdmissionContext
  readonly catalog: () => Catalog
  readonly providers: Providers
  /** The state of all targets, as this process knows it. */
  readonly health: Health
  readonly random: RandomBytes
  /** The client of a provider by its name in the settings; null: it is in there no more. */
  readonly provider: (name: string) => Provider | null
  readonly artifacts: Artifacts
  /** The length of a file by its packets; rejects where it is no mp4 that can be played, and after an abort. */
  readonly measureSeconds: (artifacts: Artifacts, name: string, bytes: number, signal: AbortSignal) => Promise<number>
  /** Keeps an event, and whom it has to be delivered to, in the transaction of what it tells. */
  readonly publish: (tx: Transaction, event: VideoEvent) => Promise<void>
  /** Jobs in progress that an organization may cancel within an hour before it has to wait with the next; at least 1. */
  readonly cancellationsPerHour: number
  /** Jobs of an organization that may fail within an hour before it has to wait with the next; at least 1. */
  readonly failuresPerHour: number
  /** Jobs of an organization that may wait for their turn at once, over all models. */
  readonly queuedMost: number
  /** An organization is notified when its balance falls below this, in micro-cents; 0: none is. */
  readonly lowBalanceMicrocents: bigint
  /** A charge has brought about something that somebody must be told. */
  readonly onNoticed: () => void
  readonly onDayMended?: OnDayMended
  readonly metrics?: VideoMetrics
  /** Where jobs are traced. */
  readonly telemetry?: Telemetry
  /** For tests that kill. */
  readonly reached?: (step: Step) => Promise<void> | void
}
