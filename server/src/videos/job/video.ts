/** A job that makes a video: its states, and what leads from one to the next. */

import { refusal } from '../../lib/errors.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/time.ts'

export const STATUSES = ['queued', 'submitting', 'in_progress', 'completed', 'failed', 'cancelled', 'expired'] as const

/**
 * - `queued`: waits for its turn
 * - `submitting`: a provider is being asked to take it; to the customer it is still queued
 * - `in_progress`: a provider has taken it
 * - `completed`: its file is there and it is charged
 * - `failed`, `cancelled`: over, never charged
 * - `expired`: its file is gone, or it never had its turn
 */
export type VideoStatus = (typeof STATUSES)[number]

/** Why a job failed, as customers are told (V5). */
export type VideoError = 'upstream_error' | 'upstream_timeout' | 'content_policy' | 'invalid_output' | 'internal_error'

interface Move {
  readonly from: readonly VideoStatus[]
  readonly to: VideoStatus
  /** Only who has taken the job up may do it: it names the attempt, and another's is refused. */
  readonly isFenced: boolean
}

/** The moves of a job between states. The guarded update of `store.ts` allows these and no other. */
export const MOVES = {
  /** Its turn has come, and a provider is about to be asked. */
  take: { from: ['queued'], to: 'submitting', isFenced: false },
  /** That one would not; the next one is about to be asked. */
  retarget: { from: ['submitting'], to: 'submitting', isFenced: true },
  /** None would take it now. */
  putBack: { from: ['submitting'], to: 'queued', isFenced: true },
  accept: { from: ['submitting'], to: 'in_progress', isFenced: true },
  complete: { from: ['in_progress'], to: 'completed', isFenced: true },
  fail: { from: ['submitting', 'in_progress'], to: 'failed', isFenced: true },
  cancel: { from: ['queued', 'submitting', 'in_progress'], to: 'cancelled', isFenced: false },
  /** It never had its turn. */
  lapse: { from: ['queued'], to: 'expired', isFenced: true },
  /** Its file has been there for long enough. */
  retire: { from: ['completed'], to: 'expired', isFenced: true },
} as const satisfies Record<string, Move>

export type MoveName = keyof typeof MOVES

/** Returns whether a job in this state is over, but for its file. */
export function isTerminal(status: VideoStatus): boolean {
  return status !== 'queued' && status !== 'submitting' && status !== 'in_progress'
}

/** Where a job was sent, and under what name. Written before it is sent. */
export interface Submission {
  /** Ours: providers that let clients name their jobs know it by this. */
  readonly id: string
  /** The provider's name in the settings. */
  readonly provider: string
  /** The model's name there. */
  readonly model: string
}

/** A job as it stands in the database. */
export interface Video {
  /** Also the id of its charge and of its hold. */
  readonly id: string
  readonly organizationId: string
  readonly keyId: string
  /** Also the instant of its charge. */
  readonly createdAtMs: number
  /** Canonical. */
  readonly model: string
  readonly tier: 'serverless' | 'economy'
  readonly priceHash: Uint8Array
  /** The price of a second that was in force when it was created. */
  readonly secondMicrocents: bigint
  /** Null once it is over. */
  readonly prompt: string | null
  /** Those that were asked for; of a completed job the billed ones. */
  readonly seconds: number
  /** `<width>x<height>`; null: the model's own. */
  readonly size: string | null
  readonly status: VideoStatus
  readonly progress: number
  /** Grows whenever somebody takes the job up. */
  readonly attempt: number
  readonly submission: Submission | null
  /** The provider's id of it. */
  readonly providerJob: string | null
  readonly startedAtMs: number | null
  readonly misses: number
  readonly completedAtMs: number | null
  readonly expiresAtMs: number | null
  readonly costMicrocents: bigint | null
  readonly error: VideoError | null
  /** The name of its file, while there is one. */
  readonly artifact: string | null
  readonly artifactBytes: number | null
}

/** A job before anybody has accepted it. */
export type NewVideo = Pick<
  Video,
  | 'id'
  | 'organizationId'
  | 'keyId'
  | 'createdAtMs'
  | 'model'
  | 'tier'
  | 'priceHash'
  | 'secondMicrocents'
  | 'seconds'
  | 'size'
> & { readonly prompt: string; readonly lapsesAtMs: number }

/** Returns a new job as it stands in the database once it is accepted. */
export function acceptedVideo({ lapsesAtMs: _, ...job }: NewVideo): Video {
  return {
    ...job,
    status: 'queued',
    progress: 0,
    attempt: 0,
    submission: null,
    providerJob: null,
    startedAtMs: null,
    misses: 0,
    completedAtMs: null,
    expiresAtMs: null,
    costMicrocents: null,
    error: null,
    artifact: null,
    artifactBytes: null,
  }
}

/** A job that nobody has said anything of for so long is another's to take up: its process is dead, or as good as that. */
export const LEASE_MS = 30_000

/** A job that was never started is given up after this long (section 3). */
export const LAPSE_MS = 2 * HOUR_MS

/** For so long after its completion a video can be fetched. */
export const VIDEO_KEPT_MS = DAY_MS

/** For so long after that its file is left to those who were just fetching it: object stores take it away under their hands. */
export const LEFT_MS = 10 * MINUTE_MS

/** The name of the file that one attempt at a job makes. */
export function artifactName({ id, attempt }: Pick<Video, 'id' | 'attempt'>): string {
  return `video-${id}-${attempt}.mp4`
}

/** The job and the attempt of a file's name; null: it is none of ours. */
export function ofArtifact(name: string): { readonly id: string; readonly attempt: number } | null {
  const [, id, attempt] = /^video-([0-9a-f-]{36})-(\d{1,9})\.mp4/.exec(name) ?? []
  return id === undefined ? null : { id, attempt: Number(attempt) }
}

/** Another organization's are no different from none. */
export const NO_SUCH_VIDEO = refusal('not_found', 'There is no video with this id: GET /v1/videos lists yours.')
