import type { TokenUsage } from '../upstream/spec.ts'
import type { Cover } from './plan/gate.ts'
import type { Metered } from './plan/meter.ts'

export type Tier = 'serverless' | 'economy'

/**
 * How the call that is charged ended:
 * - `completed`: the whole answer was generated
 * - `cancelled`: the client hung up
 * - `interrupted`: the upstream broke off in mid-stream
 * - `cut`: the money ran out in mid-call
 */
export type Outcome = 'completed' | 'cancelled' | 'interrupted' | 'cut'

/** What is fixed when a call is admitted. Price, windows, partition and bucket all follow from it. */
export interface Admission {
  /** The charge's identity: a UUIDv7 made here, never the client's word (D1). */
  readonly chargeId: string
  readonly admittedAtMs: number
  readonly organizationId: string
  readonly keyId: string
  readonly model: string
  readonly tier: Tier
  /** Names the immutable price version that the cost is computed from. */
  readonly priceHash: Uint8Array
  /** Where a plan covers the call: then it costs the balance nothing, and counts on the plan's meter. */
  readonly cover?: Cover
}

/** Images that were delivered: at least one. */
export interface ImageUsage {
  readonly count: number
  /** Of all of them together, each counted up to the size that was asked for. */
  readonly pixels: number
}

/** A charge ready to be posted. */
export interface Charge extends Admission {
  readonly usage: TokenUsage
  /** True when the tokens were counted here because the upstream reported none. */
  readonly estimated: boolean
  readonly costMicrocents: bigint
  /** The target that served it, `upstream/model`, for the operator. */
  readonly target: string
  readonly outcome: Outcome
  /** What is charged otherwise than chat (B1); absent for chat. */
  readonly modality?: 'embedding' | 'image' | 'video'
  /** Of images alone, whose `usage` has no tokens. */
  readonly images?: ImageUsage
  /** Of a video alone: the seconds that are billed, at least 1. */
  readonly videoSeconds?: number
  /** What it counts on the plan's meter, where a plan covers it; `costMicrocents` is 0 then. */
  readonly metered?: Metered
}
