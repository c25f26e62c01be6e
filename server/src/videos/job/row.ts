import type { Video, VideoError, VideoStatus } from './video.ts'

/** A row of `videos` as the database gives it. */
export interface VideoRow {
  readonly id: string
  readonly organization_id: string
  readonly key_id: string
  readonly created_at: Date
  readonly model: string
  readonly tier: 'serverless' | 'economy'
  readonly price_hash: Uint8Array
  readonly second_microcents: bigint
  readonly prompt: string | null
  readonly seconds: number
  readonly size: string | null
  readonly status: VideoStatus
  readonly progress: number
  readonly attempt: number
  readonly submission: string | null
  readonly target_provider: string | null
  readonly target_model: string | null
  readonly provider_job: string | null
  readonly started_at: Date | null
  readonly misses: number
  readonly completed_at: Date | null
  readonly expires_at: Date | null
  readonly cost_microcents: bigint | null
  readonly error: VideoError | null
  readonly artifact: string | null
  readonly artifact_bytes: bigint | null
}

export const COLUMNS = `id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, prompt, seconds,
  size, status, progress, attempt, submission, target_provider, target_model, provider_job, started_at, misses, completed_at,
  expires_at, cost_microcents, error, artifact, artifact_bytes`

/** The same with no prompt, whether or not the job has ended. */
export const COLUMNS_OF_LIST = COLUMNS.replace('prompt', 'null as prompt')

export function toVideo(row: VideoRow): Video {
  const { submission: id, target_provider: provider, target_model: model } = row
  return {
    id: row.id,
    organizationId: row.organization_id,
    keyId: row.key_id,
    createdAtMs: row.created_at.getTime(),
    model: row.model,
    tier: row.tier,
    priceHash: row.price_hash,
    secondMicrocents: row.second_microcents,
    prompt: row.prompt,
    seconds: row.seconds,
    size: row.size,
    status: row.status,
    progress: row.progress,
    attempt: row.attempt,
    submission: id === null || provider === null || model === null ? null : { id, provider, model },
    providerJob: row.provider_job,
    startedAtMs: row.started_at?.getTime() ?? null,
    misses: row.misses,
    completedAtMs: row.completed_at?.getTime() ?? null,
    expiresAtMs: row.expires_at?.getTime() ?? null,
    costMicrocents: row.cost_microcents,
    error: row.error,
    artifact: row.artifact,
    artifactBytes: row.artifact_bytes === null ? null : Number(row.artifact_bytes),
  }
}
