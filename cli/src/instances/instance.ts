/** Instances, as the server tells of them. */

export interface ShownInstance {
  readonly id: string
  readonly name: string
  readonly app: string
  readonly model: string | null
  readonly gpu_type: string
  readonly gpu_count: number
  readonly disk_gb: number
  readonly state: 'creating' | 'running' | 'terminating' | 'terminated' | 'failed'
  readonly reason: string | null
  readonly price_per_hour_cents: number
  readonly created_at: string
  readonly running_at: string | null
  readonly ended_at: string | null
  readonly app_url: string | null
  readonly terminal_url: string | null
}

export interface ShownOperation {
  readonly operation_id: string
  readonly state: 'pending' | 'in_progress' | 'succeeded' | 'failed' | 'cancelled'
  readonly resource_id: string
  readonly error: { readonly code: string; readonly detail: string } | null
  readonly result: {
    readonly app_url: string | null
    readonly terminal_url: string | null
    /** Null: the app asks for no password of ours. */
    readonly app_basic_auth_user: string | null
  } | null
  readonly warnings?: readonly string[]
}

export interface ShownOfferings {
  readonly gpu_types: readonly {
    readonly name: string
    readonly vram_gb: number
    readonly count: number
    readonly price_per_hour_cents: number
    /** The same, exact: a millionth of a cent is 1. */
    readonly price_per_hour_microcents: number
    readonly disk_gb_max: number
  }[]
  readonly apps: readonly {
    readonly name: string
    readonly vram_gb_min: number
    readonly models: readonly { readonly name: string; readonly vram_gb: number }[]
  }[]
}

export const INSTANCES = '/v1/instances'

export function instancePath(id: string): string {
  return `${INSTANCES}/${encodeURIComponent(id)}`
}
