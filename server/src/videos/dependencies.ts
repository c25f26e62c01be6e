import type { Artifacts } from '../io/artifacts.ts'
import type { Database, Transaction } from '../io/postgres/database.ts'
import type { RandomBytes } from '../kernel/ids.ts'
import type { PaidDependencies } from '../paid/dependencies.ts'
import type { Upstream } from '../upstream/spec.ts'

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

export interface VideoDependencies extends Omit<PaidDependencies, 'random' | 'metrics' | 'telemetry'> {
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
  /** For tests that kill. */
  readonly reached?: (step: Step) => Promise<void> | void
}
