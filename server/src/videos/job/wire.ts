import { MICROCENTS_PER_CENT } from '../../lib/money.ts'
import { SECOND_MS } from '../../lib/time.ts'
import type { Video, VideoError, VideoStatus } from './video.ts'

export type WireStatus = Exclude<VideoStatus, 'submitting'>

/** VideoJob of the interface. Nullable fields are always there (V5). */
export interface VideoJob {
  readonly id: string
  readonly object: 'video'
  readonly model: string
  readonly status: WireStatus
  readonly progress: number
  readonly created_at: number
  readonly seconds: number
  readonly size?: string
  readonly completed_at: number | null
  readonly expires_at: number | null
  readonly cost_cents: number | null
  readonly error: VideoError | null
}

/**
 * Returns the state of a job in the interface's words. A file whose time is over is gone, whether or not it was
 * removed yet.
 */
export function statusToWire({ status, expiresAtMs }: Video, nowMs: number): WireStatus {
  if (status === 'submitting') return 'queued'
  return status === 'completed' && expiresAtMs !== null && nowMs >= expiresAtMs ? 'expired' : status
}

export function videoToWire(video: Video, nowMs: number): VideoJob {
  const { id, model, progress, createdAtMs, seconds, size, completedAtMs, expiresAtMs, costMicrocents, error } = video
  return {
    id,
    object: 'video',
    model,
    status: statusToWire(video, nowMs),
    progress,
    created_at: toSeconds(createdAtMs),
    seconds,
    ...(size !== null && { size }),
    completed_at: completedAtMs === null ? null : toSeconds(completedAtMs),
    expires_at: expiresAtMs === null ? null : toSeconds(expiresAtMs),
    // Charged in whole cents.
    cost_cents: costMicrocents === null ? null : Number(costMicrocents / MICROCENTS_PER_CENT),
    error,
  }
}

function toSeconds(epochMs: number): number {
  return Math.floor(epochMs / SECOND_MS)
}
