import type { Instance, InstanceReason } from './instance.ts'

/** A row of `instances` as the database gives it. */
export interface InstanceRow {
  readonly id: string
  readonly organization_id: string
  readonly principal_id: string
  readonly name: string
  readonly app: string
  readonly model: string | null
  readonly gpu_type: string
  readonly gpu_count: number
  readonly disk_gb: number
  readonly hour_microcents: bigint
  readonly state: Instance['state']
  readonly reason: InstanceReason | null
  readonly attempt: number
  readonly misses: number
  readonly created_at: Date
  readonly running_at: Date | null
  readonly ended_at: Date | null
  readonly app_url: string | null
  readonly terminal_url: string | null
  readonly missing_since: Date | null
  readonly settled_second: bigint
  readonly held_second: bigint
  readonly short_since: Date | null
}

export const INSTANCE_COLUMNS = `id, organization_id, principal_id, name, app, model, gpu_type, gpu_count, disk_gb, hour_microcents, state, reason,
  attempt, misses, created_at, running_at, ended_at, app_url, terminal_url, missing_since, settled_second, held_second,
  short_since`

export function toInstance(row: InstanceRow): Instance {
  return {
    id: row.id,
    organizationId: row.organization_id,
    principalId: row.principal_id,
    name: row.name,
    app: row.app,
    model: row.model,
    gpuType: row.gpu_type,
    gpuCount: row.gpu_count,
    diskGb: row.disk_gb,
    hourMicrocents: row.hour_microcents,
    state: row.state,
    reason: row.reason,
    attempt: row.attempt,
    misses: row.misses,
    createdAtMs: row.created_at.getTime(),
    runningAtMs: row.running_at?.getTime() ?? null,
    endedAtMs: row.ended_at?.getTime() ?? null,
    appUrl: row.app_url,
    terminalUrl: row.terminal_url,
    missingSinceMs: row.missing_since?.getTime() ?? null,
    settledSecond: Number(row.settled_second),
    heldSecond: Number(row.held_second),
    shortSinceMs: row.short_since?.getTime() ?? null,
  }
}
