import type { Artifacts } from '../io/artifacts.ts'
import type { Database, Transaction } from '../io/postgres/database.ts'
import type { RandomBytes } from '../kernel/ids.ts'
import type { PaidDependencies, PaidMetrics } from '../paid/dependencies.ts'
import type { Upstream } from '../upstream/spec.ts'
import type { VideoError } from './video.ts'

/** What happened to a job, as its organization is told. */
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

/** What is counted of jobs. */
export interface VideoMetrics extends Pick<PaidMetrics, 'attempt' | 'waitedForMoney' | 'refusedForMoney'> {
  videoCreated(model: string): void
  /** A job is over, so long after its creation; `expired` is one that never had its turn. */
  videoEnded(model: string, outcome: 'completed' | 'cancelled' | 'expired' | VideoError, elapsedMs: number): void
  videoCharged(model: string, seconds: number, costMicrocents: bigint): void
  /** Somebody looked for jobs whose turn it is, or for those that are due, and took up what there was. */
  videosClaimed(claim: 'start' | 'due', elapsedMs: number): void
}

export interface VideoDependencies extends Omit<PaidDependencies, 'random' | 'metrics'> {
  readonly database: Database
  readonly random: RandomBytes
  /** The client of an upstream by its name in the settings; null: it is in there no more. */
  readonly upstream: (name: string) => Upstream | null
  readonly artifacts: Artifacts
  /** The length of a file by its packets; rejects where it is no mp4 that can be played. */
  readonly measureSeconds: (artifacts: Artifacts, name: string, bytes: number) => Promise<number>
  /** Keeps an event, and whom it has to be delivered to, in the transaction of what it tells. */
  readonly publish: (tx: Transaction, event: VideoEvent) => Promise<void>
  /** Below this balance an organization is told so; 0: nobody is. */
  readonly lowBalanceMicrocents: bigint
  /** A charge has brought about something that somebody must be told. */
  readonly onNoticed: () => void
  readonly metrics?: VideoMetrics
  /** For tests that kill. */
  readonly reached?: (step: Step) => Promise<void> | void
}
