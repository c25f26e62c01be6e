/** A video job, as the server tells of it. */
export interface ShownVideo {
  readonly id: string
  readonly model: string
  readonly status: 'queued' | 'in_progress' | 'completed' | 'failed' | 'cancelled' | 'expired'
  /** From 0 to 100. */
  readonly progress: number
  readonly seconds: number
  readonly cost_cents: number | null
  readonly error: string | null
}

export const VIDEOS = '/v1/videos'

export function videoPath(id: string): string {
  return `${VIDEOS}/${encodeURIComponent(id)}`
}
